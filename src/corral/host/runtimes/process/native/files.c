#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int open_regular(const char *path, int flags) {
    /* Without waiting, for nobody may ever open the other end of a fifo. */
    int fd = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    struct stat found;
    if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode))
        return fd;
    close(fd);
    errno = EINVAL;
    return -1;
}

bool write_all(int fd, const void *data, size_t length) {
    const char *next = data;
    while (length > 0) {
        ssize_t written = write(fd, next, length);
        if (written < 0)
            return false;
        next += written;
        length -= (size_t)written;
    }
    return true;
}

bool write_new(const char *path, const void *data, size_t length) {
    int fd = open_regular(path, O_WRONLY | O_CREAT | O_TRUNC);
    if (fd < 0)
        return false;
    bool written = write_all(fd, data, length);
    int why = errno;
    close(fd);
    errno = why;
    return written;
}

ssize_t read_some(const char *path, char *buffer, size_t room) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t length = 0;
    ssize_t got = 0;
    /* /proc answers in portions of about a page, so that only an empty one is surely the end. */
    while (length < room && (got = read(fd, buffer + length, room - length)) > 0)
        length += (size_t)got;
    int why = errno;
    close(fd);
    errno = why;
    return got < 0 ? -1 : (ssize_t)length;
}

ssize_t read_record(const char *path, char *buffer, size_t room) {
    int fd = open_regular(path, O_RDONLY);
    if (fd < 0)
        return -1;
    size_t length = 0;
    ssize_t got = 0;
    while (length < room && (got = read(fd, buffer + length, room - length)) > 0)
        length += (size_t)got;
    int why = got < 0 ? errno : EFBIG;
    close(fd);
    if (got < 0 || length == room) {
        errno = why;
        return -1;
    }
    buffer[length] = '\0';
    return (ssize_t)length;
}

static bool fits(int length) {
    if (length >= 0 && length < PATH_BYTES)
        return true;
    errno = ENAMETOOLONG;
    return false;
}

bool temporary_beside(char temporary[PATH_BYTES], const char *path) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return fits(snprintf(temporary, PATH_BYTES, "%s.%d.%lld%09ld", path, getpid(), (long long)now.tv_sec, now.tv_nsec));
}

bool path_in(char path[PATH_BYTES], const char *directory, const char *name) {
    return fits(snprintf(path, PATH_BYTES, "%s/%s", directory, name));
}

bool path_with(char path[PATH_BYTES], const char *start, const char *ending) {
    return fits(snprintf(path, PATH_BYTES, "%s%s", start, ending));
}

bool sync_directory(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool flushed = fsync(fd) == 0;
    int why = errno;
    close(fd);
    errno = why;
    return flushed;
}

void cut_last_part(char *path) {
    char *slash = strrchr(path, '/');
    if (slash != NULL)
        *slash = '\0';
}
