#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "files.h"
#include "json.h"

enum {
    TAIL_BYTES = 64 * 1024,
    READ_BYTES = 64 * 1024,
    SPLICE_BYTES = 1024 * 1024,
    FIRST_BYTES = 4096,
    NOTE_BYTES = 8192,
    MARK_BYTES = 31, /* "1700000000.123 000000000000000\n" */
    MOST_MARKS = 2048,
    JOB_BYTES = 256,
};

static const double SPACING_S = 5.0;

double uptime_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Marks */

static bool marks_path(const struct log *log, char path[PATH_BYTES]) {
    return path_with(path, log->marks.log_path, ".times");
}

/* Drop every second mark. */
static bool thin_out(struct log *log, const char *path) {
    static char marks[2 * MOST_MARKS * MARK_BYTES]; /* touched by logs of many hours alone */
    int fd = open_regular(path, O_RDONLY);
    ssize_t length = fd < 0 ? -1 : read(fd, marks, sizeof marks);
    if (fd >= 0)
        close(fd);
    if (length < 0)
        return false;
    size_t kept = 0;
    for (size_t from = MARK_BYTES; from < (size_t)length; from += 2 * (size_t)MARK_BYTES) {
        size_t width = (size_t)length - from < MARK_BYTES ? (size_t)length - from : MARK_BYTES;
        memmove(marks + kept, marks + from, width);
        kept += width;
    }
    char draft[PATH_BYTES];
    int written = snprintf(draft, sizeof draft, "%s.new", path);
    if (written < 0 || written >= PATH_BYTES || !write_new(draft, marks, kept) || rename(draft, path) != 0)
        return false;
    log->marks.count = (long long)(kept / MARK_BYTES);
    log->marks.spacing_s *= 2;
    return true;
}

static void mark(struct log *log) {
    log->marks.pending = false;
    log->marks.marked_at = uptime_s();
    char path[PATH_BYTES], line[64];
    if (!marks_path(log, path) || (log->marks.count >= MOST_MARKS && !thin_out(log, path)))
        return;
    int fd = open_regular(path, O_WRONLY | O_APPEND | O_CREAT);
    if (fd < 0)
        return;
    /* Rounded up: what was written a moment later must not count as written before. */
    double at = log->marks.boot_at + log->marks.at + 0.0005;
    int length = snprintf(line, sizeof line, "%014.3f %015lld\n", at, log->marks.end);
    if (write(fd, line, (size_t)length) == length)
        log->marks.count++;
    close(fd);
}

static void open_marks(struct log *log, const char *path, long long size, const double *boot_at) {
    log->marks.log_path = path;
    log->marks.at = log->marks.marked_at = uptime_s();
    log->marks.boot_at = boot_at == NULL ? now_s() - log->marks.at : *boot_at;
    log->marks.end = size;
    log->marks.spacing_s = SPACING_S;
    char marks[PATH_BYTES];
    struct stat found;
    if (marks_path(log, marks) && lstat(marks, &found) == 0)
        log->marks.count = found.st_size / MARK_BYTES;
    if (size > 0)
        mark(log);
}

static void wrote(struct log *log, long long end) {
    log->marks.at = uptime_s();
    log->marks.end = end;
    if (log->marks.at - log->marks.marked_at >= log->marks.spacing_s)
        mark(log);
    else
        log->marks.pending = true;
}

double log_rest_ms(const struct log *log) {
    return log->marks.pending ? SPACING_S * 1000 : -1;
}

void log_rest(struct log *log) {
    if (log->marks.pending)
        mark(log);
}

/* The log */

static void give_up(struct log *log) {
    if (log->error[0] == '\0')
        snprintf(log->error, sizeof log->error, "cannot write the log: %s",
                 errno == EINVAL ? "it is not a regular file" : strerror(errno));
    log->room = 0;
}

/* Whose it is: job_logs.py has the reasons. */

static bool is_of(const char *mark, const char *job) {
    char found[JOB_BYTES];
    ssize_t length = readlink(mark, found, sizeof found);
    return length >= 0 && (size_t)length == strlen(job) && memcmp(found, job, (size_t)length) == 0;
}

static bool move_aside(const char *path) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const char *const endings[] = {"", ".times"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        char found[PATH_BYTES], aside[PATH_BYTES], until[64];
        snprintf(until, sizeof until, ".until-%lld%09ld%s", (long long)now.tv_sec, now.tv_nsec, endings[i]);
        if (!path_with(found, path, endings[i]) || !path_with(aside, path, until))
            return false;
        if (rename(found, aside) != 0 && errno != ENOENT)
            return false;
    }
    return true;
}

static int open_own_log(const char *path, const char *job) {
    char mark[PATH_BYTES];
    if (job[0] == '\0')
        return open_regular(path, O_RDWR | O_CREAT);
    if (!path_with(mark, path, ".of"))
        return -1;
    if (is_of(mark, job))
        return open_regular(path, O_RDWR | O_CREAT);
    if (!move_aside(path))
        return -1;
    int fd = open_regular(path, O_RDWR | O_CREAT | O_EXCL);
    if (fd >= 0 && symlink(job, mark) != 0 && errno == EEXIST && unlink(mark) == 0)
        (void)!symlink(job, mark);
    return fd;
}

void log_open(struct log *log, const char *path, long uid, long gid, long long max_bytes, const double *boot_at,
              bool of_terminal, const char *job) {
    *log = (struct log){.fd = -1, .max_bytes = max_bytes, .of_terminal = of_terminal, .spliceable = !of_terminal};
    log->tail_limit = max_bytes / 2 < TAIL_BYTES ? (size_t)(max_bytes / 2) : TAIL_BYTES;
    log->room = max_bytes - (long long)log->tail_limit;
    /* A retry goes on in the same file. No O_APPEND: splice refuses it, so the end is looked for each time: the server
       writes lines of its own to it. */
    int fd = open_own_log(path, job);
    log->fd = fd;
    if (fd < 0 || (uid != -1 && fchown(fd, (uid_t)uid, (gid_t)gid) != 0)) {
        give_up(log); /* where it is open, its end is written all the same */
        return;
    }
    long long size = lseek(fd, 0, SEEK_END);
    open_marks(log, path, size, boot_at);
    if (size == 0)
        /* A block for the first lines, and for one that says what is missing once the disk is full. */
        (void)!fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, FIRST_BYTES);
}

static bool write_log(struct log *log, const char *data, size_t length) {
    if (log->fd < 0)
        return false;
    long long end = lseek(log->fd, 0, SEEK_END);
    if (end < 0 || !write_all(log->fd, data, length)) {
        give_up(log);
        return false;
    }
    wrote(log, end + (long long)length);
    return true;
}

/* Whether the character shows itself: controls, what only shapes text, separators and what is nobody's does not. */
static bool shows(unsigned code) {
    static const unsigned hidden[][2] = {
        {0x00, 0x1F},     {0x7F, 0xA0},     {0xAD, 0xAD},     {0x600, 0x605},     {0x61C, 0x61C},
        {0x6DD, 0x6DD},   {0x70F, 0x70F},   {0x890, 0x891},   {0x8E2, 0x8E2},     {0x1680, 0x1680},
        {0x180E, 0x180E}, {0x2000, 0x200F}, {0x2028, 0x202F}, {0x205F, 0x206F},   {0x3000, 0x3000},
        {0xD800, 0xF8FF}, {0xFDD0, 0xFDEF}, {0xFEFF, 0xFEFF}, {0xFFF0, 0xFFFB},   {0xFFFE, 0xFFFF},
        {0x110BD, 0x110BD}, {0x110CD, 0x110CD}, {0x13430, 0x1345F}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A},
        {0xE0000, 0x10FFFF},
    };
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        if (code >= hidden[i][0] && code <= hidden[i][1])
            return false;
    return true;
}

static int show_hidden(char shown[16], unsigned code) {
    switch (code) {
    case '\n':
        return snprintf(shown, 16, "\\n");
    case '\r':
        return snprintf(shown, 16, "\\r");
    case '\t':
        return snprintf(shown, 16, "\\t");
    default:
        return snprintf(shown, 16, code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
    }
}

/* "corral: LINE". Some of it may be a job's own words, which could pass for another line of Corral's or command a
   terminal. */
static size_t write_note(char *note, size_t room, const char *line, const char *end) {
    size_t length = (size_t)snprintf(note, room, "corral: ");
    while (*line != '\0') {
        size_t bytes;
        unsigned code = utf8_decode(line, &bytes);
        char hidden[16];
        const char *shown = line;
        size_t needed = bytes;
        if (!shows(code)) {
            needed = (size_t)show_hidden(hidden, code);
            shown = hidden;
        }
        if (length + needed + strlen(end) >= room)
            break;
        memcpy(note + length, shown, needed);
        length += needed;
        line += bytes;
    }
    return length + (size_t)snprintf(note + length, room - length, "%s", end);
}

void log_note(struct log *log, const char *format, ...) {
    char line[NOTE_BYTES], note[NOTE_BYTES + 16] = "\n";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (log->fd < 0)
        return;
    char last = '\n';
    long long size = lseek(log->fd, 0, SEEK_END);
    bool mid_line = size > 0 && pread(log->fd, &last, 1, size - 1) == 1 && last != '\n';
    size_t length = write_note(note + 1, sizeof note - 1, line, log->of_terminal ? "\r\n" : "\n");
    write_log(log, mid_line ? note : note + 1, length + mid_line);
}

/* Have the file end with a line of Corral's own where there is no room for one more: its end gives way. */
static void mark_in_place(struct log *log, const char *line) {
    char note[512] = "\n";
    size_t length = 1 + write_note(note + 1, sizeof note - 1, line, "\n");
    long long size = lseek(log->fd, 0, SEEK_END);
    if (size >= (long long)length && pwrite(log->fd, note, length, size - (long long)length) >= 0)
        log->dropped_bytes += (long long)length;
}

static void say_full(struct log *log) {
    log_note(log, "the log is full (%lld bytes); nothing more is shown here until the end", log->max_bytes);
}

static void cut(struct log *log, size_t surplus) {
    if (log->dropped_bytes == 0 && !log->of_terminal && log->error[0] == '\0')
        /* Who follows it, or looks at its end, would take an old line for the newest. */
        say_full(log);
    log->tail_length -= surplus;
    memmove(log->tail, log->tail + surplus, log->tail_length);
    log->dropped_bytes += (long long)surplus;
}

static void keep_tail(struct log *log, const char *data, size_t length) {
    if (log->of_terminal && log->tail_length == 0 && log->error[0] == '\0')
        /* Who sits at it sees what is in the log. */
        say_full(log);
    /* Room for twice the limit and a portion: it is cut now and then rather than on every read. */
    if (log->tail == NULL)
        log->tail = malloc(2 * log->tail_limit + READ_BYTES);
    if (log->tail == NULL) {
        log->dropped_bytes += (long long)length;
        return;
    }
    memcpy(log->tail + log->tail_length, data, length);
    log->tail_length += length;
    if (log->tail_length > 2 * log->tail_limit)
        cut(log, log->tail_length - log->tail_limit);
}

static void take(struct log *log, const char *data, size_t length) {
    size_t head = log->room < (long long)length ? (size_t)log->room : length;
    if (head > 0 && write_log(log, data, head))
        log->room -= (long long)head;
    else
        head = 0;
    if (head < length)
        keep_tail(log, data + head, length - head);
}

bool log_drain(struct log *log, int pipe) {
    if (log->room > 0 && log->spliceable) {
        long long size = lseek(log->fd, 0, SEEK_END);
        size_t most = log->room < SPLICE_BYTES ? (size_t)log->room : SPLICE_BYTES;
        ssize_t moved = splice(pipe, NULL, log->fd, NULL, most, SPLICE_F_NONBLOCK);
        if (moved >= 0) {
            log->room -= moved;
            if (moved > 0)
                wrote(log, size + moved);
            return moved > 0;
        }
        if (errno == EAGAIN)
            return true;
        if (errno == EINVAL)
            log->spliceable = false;
        else
            give_up(log);
    }
    char data[READ_BYTES];
    ssize_t got = read(pipe, data, sizeof data);
    if (got < 0)
        return errno == EAGAIN; /* another error: a terminal whose session has ended */
    take(log, data, (size_t)got);
    return got > 0;
}

void log_close(struct log *log, const char *last_line) {
    if (log->fd < 0) {
        log->dropped_bytes += (long long)log->tail_length;
        return;
    }
    if (log->tail_length > log->tail_limit)
        cut(log, log->tail_length - log->tail_limit);
    char why[200], missing[400];
    if (log->error[0] != '\0')
        snprintf(why, sizeof why, "%s", log->error);
    else
        snprintf(why, sizeof why, "the log is limited to %lld bytes", log->max_bytes);
    if (log->dropped_bytes > 0 || (log->error[0] != '\0' && log->tail_length > 0))
        log_note(log, "%lld bytes of output are missing here (%s); what follows is its end", log->dropped_bytes, why);
    if (log->tail_length > 0 && !write_log(log, log->tail, log->tail_length)) {
        log->dropped_bytes += (long long)log->tail_length;
        snprintf(missing, sizeof missing, "%lld bytes of output are missing here (%s)", log->dropped_bytes, why);
        mark_in_place(log, missing);
    }
    if (last_line[0] != '\0')
        log_note(log, "%s", last_line);
    if (log->marks.pending && log->marks.count > 0)
        mark(log);
    close(log->fd);
    log->fd = -1;
}
