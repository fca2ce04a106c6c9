#include "records.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "json.h"
#include "log.h"
#include "processes.h"

/* One block, written while there is room, so that a disk which fills up meanwhile cannot swallow the exit code. */
enum { EXIT_ROOM_BYTES = 4096, RECORD_BYTES = 4096, REASON_CHARACTERS = 100 };

static const double LATEST_S = 1e11; /* no moment of a record is so late */

static char boot_id[64];

bool read_boot_id(void) {
    ssize_t length = read_some("/proc/sys/kernel/random/boot_id", boot_id, sizeof boot_id - 1);
    boot_id[length > 0 ? length : 0] = '\0';
    boot_id[strcspn(boot_id, "\n")] = '\0';
    return boot_id[0] != '\0';
}

/* {"pid": 1, "start_ticks": 2, "boot_id": "..."} */
static bool describe_process(char *text, size_t room, pid_t pid) {
    long long ticks = start_ticks(pid);
    if (ticks < 0) {
        errno = ESRCH;
        return false;
    }
    int length = snprintf(text, room, "{\"pid\": %d, \"start_ticks\": %lld, \"boot_id\": \"%s\"}", pid, ticks, boot_id);
    return length > 0 && (size_t)length < room;
}

/* The link is what makes it exclusive, and it comes before the flush: one flush then covers the contents and the name. A
   crash of the machine in between may leave an empty claim, which counts as taken. */
static enum claimed link_claim(int fd, const char *directory, const char *temporary, const char *path) {
    char process[256], claim[512], above[PATH_BYTES];
    if (!describe_process(process, sizeof process, getpid()))
        return NOT_CLAIMED;
    int length = snprintf(claim, sizeof claim,
                          "{\"claimed_at\": %.6f, \"holder\": %s, \"declared_lost\": false, \"message\": \"\", \"ran\": false}",
                          now_s(), process);
    if (!write_all(fd, claim, (size_t)length))
        return NOT_CLAIMED;
    if (link(temporary, path) != 0)
        return errno == EEXIST ? CLAIMED_BY_ANOTHER : NOT_CLAIMED;
    snprintf(above, sizeof above, "%s", directory);
    cut_last_part(above);
    return fsync(fd) == 0 && sync_directory(directory) && sync_directory(above) ? CLAIMED : NOT_CLAIMED;
}

enum claimed claim_launch(const char *directory) {
    char path[PATH_BYTES], temporary[PATH_BYTES];
    if (!path_in(path, directory, "claim") || !temporary_beside(temporary, path))
        return NOT_CLAIMED;
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return NOT_CLAIMED;
    enum claimed claimed = link_claim(fd, directory, temporary, path);
    int why = errno;
    close(fd);
    unlink(temporary);
    errno = why;
    return claimed;
}

static bool append(const char *path, const char *text, int flags) {
    int fd = open_regular(path, O_WRONLY | O_APPEND | flags);
    if (fd < 0)
        return false;
    bool written = write_all(fd, text, strlen(text));
    int why = errno;
    close(fd);
    errno = why;
    return written;
}

bool write_started(const char *directory, pid_t pid, double started_at) {
    char path[PATH_BYTES], process[256], line[384];
    if (!path_in(path, directory, "claim") || !describe_process(process, sizeof process, pid))
        return false;
    snprintf(line, sizeof line, "\n{\"process\": %s, \"started_at\": %.6f}", process, started_at);
    return append(path, line, 0);
}

bool list_as_claimed(const char *directory) {
    char home[PATH_BYTES], path[PATH_BYTES], moved[PATH_BYTES], line[PATH_BYTES];
    const char *slash = strrchr(directory, '/');
    snprintf(home, sizeof home, "%s", directory);
    cut_last_part(home);
    cut_last_part(home);
    /* A line of its own, also after what a job may have left there. */
    snprintf(line, sizeof line, "\n%s\n", slash == NULL ? directory : slash + 1);
    if (!path_in(path, home, "claims"))
        return false;
    if (append(path, line, O_CREAT))
        return true;
    if (errno != EINVAL && errno != ELOOP && errno != EISDIR && errno != ENXIO && errno != EACCES && errno != EPERM)
        return false;
    /* What a job put in its place is moved aside, for every other job needs it. */
    return temporary_beside(moved, path) && rename(path, moved) == 0 && append(path, line, O_CREAT);
}

bool reserve_exit(const char *directory) {
    char path[PATH_BYTES], blank[EXIT_ROOM_BYTES];
    memset(blank, ' ', sizeof blank);
    return path_in(path, directory, "exit.room") && write_new(path, blank, sizeof blank);
}

/* "null", or a number, or a text in quotes, for a member of the record. */
static void whole_or_null(char text[24], int number, bool there) {
    snprintf(text, 24, there ? "%d" : "null", number);
}

static void encode_exit(char text[EXIT_ROOM_BYTES + 1], const struct exit_record *record) {
    char code[24], signum[24], reason[REASON_CHARACTERS * 12 + 3] = "null", started[48] = "null";
    whole_or_null(code, record->exit_code, record->exit_code >= 0);
    whole_or_null(signum, record->signum, record->signum > 0);
    if (record->reason[0] != '\0') {
        reason[0] = '"';
        json_escape(reason + 1, sizeof reason - 2, record->reason, REASON_CHARACTERS);
        strcat(reason, "\"");
    }
    if (record->started_at >= 0)
        snprintf(started, sizeof started, "%.6f", record->started_at);
    char end[128];
    int tail = snprintf(end, sizeof end, "\", \"started_at\": %s, \"ended_at\": %.6f}", started, record->ended_at);
    int head = snprintf(text, EXIT_ROOM_BYTES, "{\"exit_code\": %s, \"signal\": %s, \"reason\": %s, \"message\": \"", code,
                        signum, reason);
    /* With as much of the message as the reserved room holds: escaped, a character may take twelve bytes. */
    json_escape(text + head, (size_t)(EXIT_ROOM_BYTES - head - tail), record->message, MESSAGE_CHARACTERS);
    strcat(text, end);
}

bool write_exit(const char *directory, const struct exit_record *record) {
    char room[PATH_BYTES], path[PATH_BYTES], text[EXIT_ROOM_BYTES + 1];
    if (!path_in(room, directory, "exit.room") || !path_in(path, directory, "exit"))
        return false;
    encode_exit(text, record);
    size_t length = strlen(text);
    memset(text + length, ' ', EXIT_ROOM_BYTES - length);
    int fd = open_regular(room, O_WRONLY | O_CREAT);
    if (fd < 0)
        return false;
    bool written = write_all(fd, text, EXIT_ROOM_BYTES) && rename(room, path) == 0 && fsync(fd) == 0 &&
                   sync_directory(directory);
    int why = errno;
    close(fd);
    errno = why;
    return written;
}

/* A member of a small record that the server wrote; NULL for none. The memory of `text` must outlive it. */
static const struct json *read_member(const char *directory, const char *name, const char *key, struct arena *arena,
                                      char text[RECORD_BYTES]) {
    char path[PATH_BYTES];
    if (!path_in(path, directory, name) || read_record(path, text, RECORD_BYTES) < 0)
        return NULL;
    return json_member(json_read(arena, text), key);
}

bool read_stop_reason(const char *directory, char reason[REASON_BYTES]) {
    char text[RECORD_BYTES];
    struct arena arena = {0};
    const struct json *told = read_member(directory, "stop", "reason", &arena, text);
    bool found = told != NULL && told->kind == JSON_TEXT;
    if (found) {
        size_t bytes = 0, length;
        for (int i = 0; i < REASON_CHARACTERS && told->text[bytes] != '\0'; i++, bytes += length)
            utf8_decode(told->text + bytes, &length);
        snprintf(reason, REASON_BYTES, "%.*s", (int)bytes, told->text);
    }
    arena_free(&arena);
    return found;
}

bool read_new_time_limit(const char *directory, double *limit_s) {
    char text[RECORD_BYTES];
    struct arena arena = {0};
    const struct json *told = read_member(directory, "limit", "time_limit_s", &arena, text);
    bool found = told != NULL && (told->kind == JSON_WHOLE || told->kind == JSON_NUMBER) && told->number >= 0 &&
                 told->number < LATEST_S;
    if (found)
        *limit_s = told->number;
    arena_free(&arena);
    return found;
}
