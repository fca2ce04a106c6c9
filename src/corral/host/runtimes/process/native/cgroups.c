#include "cgroups.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"

static bool write_in(const char *group, const char *name, const char *word) {
    char path[PATH_BYTES];
    int fd = path_in(path, group, name) ? open(path, O_WRONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return false;
    bool written = write_all(fd, word, strlen(word));
    close(fd);
    return written;
}

bool cgroup_join(const char *path) {
    /* Of version 1, whose kernel need not wait for all processors to move one thread. */
    return write_in(path, "tasks", "0") || write_in(path, "cgroup.procs", "0");
}

void cgroup_kill(const char *path) {
    write_in(path, "cgroup.kill", "1");
}

/* As deep as the kernel lets a job make them: relative to a descriptor, so that no path can become too long. */
static void remove_below(int parent, const char *name) {
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (listing == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;)
        if (entry->d_type == DT_DIR && strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            remove_below(fd, entry->d_name);
    closedir(listing);
    unlinkat(parent, name, AT_REMOVEDIR);
}

void cgroup_remove(const char *path) {
    /* Most are empty, and then this is all. */
    if (rmdir(path) != 0)
        remove_below(AT_FDCWD, path);
}

static bool read_in(const char *group, const char *name, char *text, size_t room) {
    char path[PATH_BYTES];
    ssize_t length = path_in(path, group, name) ? read_some(path, text, room - 1) : -1;
    if (length < 0)
        return false;
    text[length] = '\0';
    return true;
}

long long cgroup_kills_for_memory(const char *path, long long *limit_mib) {
    static const char *const names[][2] = {
        {"memory.events", "memory.max"},
        {"memory.oom_control", "memory.limit_in_bytes"},
    };
    for (int version = 0; version < 2; version++) {
        char events[1024], limit[64], *end;
        if (!read_in(path, names[version][0], events, sizeof events) ||
            !read_in(path, names[version][1], limit, sizeof limit))
            continue;
        long long bytes = strtoll(limit, &end, 10);
        if (end == limit)
            continue;
        *limit_mib = bytes / 1024 / 1024;
        const char *line = strstr(events, "oom_kill ");
        return line == NULL ? 0 : atoll(line + strlen("oom_kill "));
    }
    return 0;
}
