/* The supervisor as a library, for tests of its parts: by a clock that is set by hand, with signals that are only noted. */

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kill_grace.h"
#include "log.h"
#include "records.h"
#include "streams.h"

/* The clock */

static double set_to = -1;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
    if (set_to < 0)
        return __real_clock_gettime(clock, now);
    now->tv_sec = (time_t)set_to;
    now->tv_nsec = (long)((set_to - (double)now->tv_sec) * 1e9);
    return 0;
}

void set_clock(double at) {
    set_to = at;
}

/* The signals */

enum { MOST_SIGNALS = 64 };

static struct {
    double at;
    int signum;
} told[MOST_SIGNALS];
static int told_count;

static void note_signal(int signum) {
    if (told_count == MOST_SIGNALS)
        abort();
    told[told_count].at = uptime_s();
    told[told_count++].signum = signum;
}

void __wrap_tell_job(int signum, char target, pid_t main_pid, bool wrapped);
void __wrap_terminate_job(void);
void __wrap_kill_job(void);

void __wrap_tell_job(int signum, char target, pid_t main_pid, bool wrapped) {
    (void)target, (void)main_pid, (void)wrapped;
    note_signal(signum);
}

void __wrap_terminate_job(void) {
    note_signal(15);
}

void __wrap_kill_job(void) {
    note_signal(9);
}

int signal_told(int number, double *at) {
    if (number >= told_count)
        return 0;
    *at = told[number].at;
    return told[number].signum;
}

/* The log */

struct log *make_log(const char *path, long long max_bytes, double boot_at, bool of_terminal) {
    struct log *log = calloc(1, sizeof *log);
    log_open(log, strdup(path), -1, -1, max_bytes, boot_at < 0 ? NULL : &boot_at, of_terminal, "");
    return log;
}

void write_line(struct log *log, const char *line) {
    log_note(log, "%s", line);
}

const char *error_of(const struct log *log) {
    return log->error;
}

long long dropped_bytes_of(const struct log *log) {
    return log->dropped_bytes;
}

/* How a job is ended */

struct escalation *make_escalation(struct log *log, double limit_s, double notice_s, double spare_s) {
    struct orders *orders = calloc(1, sizeof *orders);
    orders->kill_grace_s = 10;
    orders->checkpoint_signal = notice_s < 0 ? 0 : 10;
    orders->checkpoint_grace_s = notice_s < 0 ? 0 : notice_s;
    orders->spare_s = spare_s;
    struct escalation *escalation = calloc(1, sizeof *escalation);
    escalation_begin(escalation, orders, log);
    escalation->main_pid = getpid();
    escalation_limit(escalation, uptime_s(), limit_s);
    told_count = 0;
    return escalation;
}

const char *stop_reason_of(const struct escalation *escalation) {
    return escalation->stop_reason;
}

/* Input */

struct streams *make_streams(const char *directory) {
    struct orders orders = {.uid = -1, .gid = -1, .stdin_comes = true};
    struct streams *streams = calloc(1, sizeof *streams);
    if (!streams_open(streams, &orders, directory))
        abort();
    return streams;
}

int reader_of(const struct streams *streams) {
    return streams->program_in;
}

int writer_of(const struct streams *streams) {
    return streams->input;
}

void end_streams(struct streams *streams) {
    close(streams->program_out);
    streams_close(streams);
}

/* The records */

bool record_exit(const char *directory, int exit_code, int signum, const char *reason, const char *message,
                 double started_at, double ended_at) {
    struct exit_record record = {exit_code, signum, reason, message, started_at, ended_at};
    return write_exit(directory, &record);
}
