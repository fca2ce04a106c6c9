/* A job's log, and the marks of when what of it was written (log_marks.py reads them).

   The file holds at most `max_bytes` of output of this launch. Its last 64 KiB (half of `max_bytes` if that is less) are
   kept for the end of the output, which waits in memory until the job ends. A full disk neither stops nor blocks the job:
   once writing fails the rest is handled as if the limit had been reached, and `error` says what failed.

   A mark is a moment and how long the log was then. A job that ends within seconds has no file of marks. A mark that cannot
   be written is left out: who asks then gets more of the log than was meant, and never less. */
#ifndef CORRAL_LOG_H
#define CORRAL_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct log {
    int fd; /* -1: it cannot be written */
    char error[160];
    long long dropped_bytes, room, max_bytes;
    size_t tail_limit;
    char *tail;
    size_t tail_length;
    bool of_terminal, spliceable;
    struct {
        const char *log_path;
        double boot_at, at, marked_at, spacing_s;
        long long end, count;
        bool pending;
    } marks;
};

/* Seconds since boot: never jumps as the wall clock does, and counts while the machine is suspended. */
double uptime_s(void);

/* The time of the wall clock. */
double now_s(void);

/* `job` names the job of which the log is, as no other job is named, "" for any: job_logs.py. */
void log_open(struct log *log, const char *path, long uid, long gid, long long max_bytes, const double *boot_at,
              bool of_terminal, const char *job);

/* One line of Corral's own. */
void log_note(struct log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Take what the non-blocking pipe holds, at most one portion. False at its end. */
bool log_drain(struct log *log, int pipe);

/* After so many milliseconds without output `log_rest` has something to do; -1 while it has nothing. */
double log_rest_ms(const struct log *log);
void log_rest(struct log *log);

/* Write the end of the output, and a line of Corral's own if there is one. Then `dropped_bytes` and `error` are final. */
void log_close(struct log *log, const char *last_line);

#endif
