#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cgroups.h"
#include "kill_grace.h"
#include "exec.h"
#include "fence.h"
#include "files.h"
#include "log.h"
#include "orders.h"
#include "records.h"
#include "start.h"
#include "streams.h"

enum {
    NEWS = SIGURG,
    HEARD_SIGNALS = 7,
    LAST_PORTIONS = 256, /* a pipe holds at most 1 MiB unless root says more, and a portion is a page at least */
    MESSAGE_BYTES = 4 * MESSAGE_CHARACTERS,
};

/* The job from its claim to its exit record. */
struct job {
    const char *directory;
    struct orders orders;
    struct arena kept;
    struct log log;
    struct streams streams;
    struct escalation escalation;
    struct command outputs; /* of a job that writes its output to files itself */
    bool has_outputs;
    pid_t main_pid;
    bool main_ended, children_left;
    int main_status;
    double began_at_s;  /* in seconds since boot */
    double started_at;  /* in the server's seconds, -1 while no program runs */
};

void heard_signals(sigset_t *signals) {
    static const int heard[HEARD_SIGNALS] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGPIPE, SIGXFSZ, NEWS};
    sigemptyset(signals);
    for (int i = 0; i < HEARD_SIGNALS; i++)
        sigaddset(signals, heard[i]);
}

/* A moment since the boot in the server's seconds. */
static double moment(const struct job *job, double uptime) {
    return job->orders.has_boot_at ? job->orders.boot_at + uptime : now_s();
}

/* The end */

/* Write the exit record; waits for room on the disk as long as it takes, for nobody else knows how it ended. */
static void record(struct job *job, int exit_code, int signum, const char *reason, const char *message) {
    double ended_at = moment(job, uptime_s());
    if (job->started_at >= 0)
        ended_at = job->started_at + uptime_s() - job->began_at_s;
    if (job->orders.cgroup != NULL)
        cgroup_remove(job->orders.cgroup);
    const struct json *limits = job->orders.limits;
    for (const struct json *group = limits ? limits->first : NULL; group != NULL; group = group->next)
        cgroup_remove(group->text);
    struct exit_record exit_record = {exit_code, signum, reason, message, job->started_at, ended_at};
    struct timespec pause = {1, 0};
    while (!write_exit(job->directory, &exit_record)) {
        switch (errno) {
        case ENOSPC:
        case EDQUOT:
        case EIO:
        case EROFS:
        case ESTALE:
        case EMFILE:
        case ENFILE:
        case ENOMEM:
        case EFBIG:
            nanosleep(&pause, NULL);
            break;
        default:
            /* The record was removed, or something else put in its place: the server will say so. */
            return;
        }
    }
}

static void killed_for_memory(const struct job *job, char *text, size_t room) {
    text[0] = '\0';
    const struct json *limits = job->orders.limits;
    for (const struct json *group = limits ? limits->first : NULL; group != NULL; group = group->next) {
        long long limit_mib, kills = cgroup_kills_for_memory(group->text, &limit_mib);
        char whom[40] = "a process";
        if (kills > 1)
            snprintf(whom, sizeof whom, "%lld processes", kills);
        if (kills > 0) {
            snprintf(text, room, "the kernel killed %s of it for memory: the job may have %lld MiB (--host-memory)", whom,
                     limit_mib);
            return;
        }
    }
}

static void add_message(char messages[MESSAGE_BYTES], const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add_message(char messages[MESSAGE_BYTES], const char *format, ...) {
    size_t length = strlen(messages);
    if (length > 0)
        length += (size_t)snprintf(messages + length, MESSAGE_BYTES - length, "; ");
    va_list arguments;
    va_start(arguments, format);
    if (length < MESSAGE_BYTES)
        vsnprintf(messages + length, MESSAGE_BYTES - length, format, arguments);
    va_end(arguments);
}

static void finish(struct job *job) {
    /* The job is gone, so what is in the pipe now is its all; but its user may have opened the pipe from elsewhere. */
    for (int portion = 0; portion < LAST_PORTIONS; portion++) {
        struct pollfd output = {job->streams.output, POLLIN, 0};
        if (poll(&output, 1, 0) <= 0 || !log_drain(&job->log, job->streams.output))
            break;
    }
    streams_close(&job->streams);
    char killed[256], full[PATH_BYTES], messages[MESSAGE_BYTES] = "";
    killed_for_memory(job, killed, sizeof killed);
    log_close(&job->log, killed);
    int signum = WIFSIGNALED(job->main_status) ? WTERMSIG(job->main_status) : 0;
    int code = signum ? 128 + signum : WEXITSTATUS(job->main_status);
    if (killed[0] != '\0' && code != 0)
        add_message(messages, "%s", killed);
    if (code != 0 && job->has_outputs && (full_disk(&job->outputs, full, sizeof full), full[0] != '\0'))
        add_message(messages, "the disk of its output %s is full", full);
    if (job->log.error[0] != '\0')
        add_message(messages, "%s; %lld bytes of output were dropped", job->log.error, job->log.dropped_bytes);
    record(job, code, signum, job->escalation.stop_reason, messages);
}

/* The loop */

static void reap(struct job *job) {
    int status;
    for (;;) {
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid == 0)
            return;
        if (pid < 0) {
            job->children_left = false;
            return;
        }
        if (pid == job->main_pid) {
            job->main_ended = true;
            job->main_status = status;
        }
    }
}

static bool is_over(const struct job *job) {
    return !job->children_left && job->main_ended;
}

/* Keep the time limit that the launch was given since, if it was. */
static void take_time_limit(struct job *job) {
    double limit_s;
    if (read_new_time_limit(job->directory, &limit_s))
        escalation_limit(&job->escalation, job->began_at_s, limit_s);
}

/* What the agent has for a job that runs: another time limit, a command to run beside it. */
static void take_news(struct job *job) {
    take_time_limit(job);
    if (!job->main_ended && job->escalation.stop_reason[0] == '\0')
        run_waiting_command(job->directory);
}

static void hear_signals(struct job *job, int signals) {
    struct signalfd_siginfo heard;
    /* No more than can be pending: a job of the server's own user could send others for ever. */
    for (int i = 0; i < HEARD_SIGNALS && read(signals, &heard, sizeof heard) == (ssize_t)sizeof heard; i++) {
        if (heard.ssi_signo == NEWS)
            take_news(job);
        bool stops = heard.ssi_signo == SIGTERM || heard.ssi_signo == SIGINT || heard.ssi_signo == SIGHUP;
        if (stops && !job->main_ended) {
            char reason[REASON_BYTES];
            bool told = read_stop_reason(job->directory, reason) && reason[0] != '\0';
            escalation_stop(&job->escalation, told ? reason : "cancelled");
        }
    }
}

/* Milliseconds for poll, -1 for ever. */
static int sooner_ms(double first, double second) {
    double ms = first < 0 ? second : second < 0 ? first : first < second ? first : second;
    return ms < 0 ? -1 : ms >= INT_MAX ? INT_MAX : (int)ms + 1;
}

/* Supervise the job until none of its processes is left. */
static void watch(struct job *job, int signals) {
    struct pollfd watched[] = {
        {signals, POLLIN, 0},
        {job->streams.output, POLLIN, 0},
        {job->streams.questions, POLLIN, 0},
    };
    while (!is_over(job)) {
        int ready = poll(watched, 3, sooner_ms(escalation_wait_ms(&job->escalation), log_rest_ms(&job->log)));
        if (ready > 0 && watched[0].revents != 0)
            hear_signals(job, signals);
        if (ready > 0 && watched[1].revents != 0 && !log_drain(&job->log, job->streams.output))
            watched[1].fd = -1;
        if (ready > 0 && watched[2].revents != 0)
            streams_answer(&job->streams);
        if (ready == 0)
            log_rest(&job->log);
        reap(job);
        if (!is_over(job))
            escalation_go_on(&job->escalation, job->main_ended);
    }
}

/* Beginning */

static bool make_scratch(const struct orders *orders) {
    if (mkdir(orders->scratch_path, 0700) != 0)
        return errno == EEXIST;
    return orders->uid == -1 || chown(orders->scratch_path, (uid_t)orders->uid, (gid_t)orders->gid) == 0;
}

/* Notify the server, if there is one. The files count; the notice only saves a wait. */
static void notify(const struct orders *orders) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (orders->notify_path == NULL || orders->notify_path[0] == '\0' ||
        strlen(orders->notify_path) >= sizeof address.sun_path)
        return;
    strcpy(address.sun_path, orders->notify_path);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    struct timeval patience = {0, 50 * 1000};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    sendto(fd, orders->launch_id, strlen(orders->launch_id), 0, (struct sockaddr *)&address, sizeof address);
    close(fd);
}

static void note_numa(struct job *job) {
    char why[200], nodes[512] = "";
    size_t length = 0;
    if (bind_to_numa_nodes(&job->orders, why, sizeof why))
        return;
    for (const struct json *node = job->orders.numa_nodes->first; node && length < sizeof nodes; node = node->next)
        length += (size_t)snprintf(nodes + length, sizeof nodes - length, "%s%lld", length ? ", " : "", node->whole);
    log_note(&job->log, "warning: the job is not bound to NUMA node %s, which is nearest to its GPUs: %s", nodes, why);
}

/* Whether a line of the server's says it already. */
static bool is_noted(const struct orders *orders, const char *message) {
    for (const struct json *note = orders->notes ? orders->notes->first : NULL; note != NULL; note = note->next)
        if (strcmp(note->text, message) == 0)
            return true;
    return false;
}

/* Everything but the program. False where it cannot be had, and then the exit is recorded. */
static bool prepare(struct job *job) {
    const struct orders *orders = &job->orders;
    char message[MESSAGE_BYTES], reason[REASON_BYTES];
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
        record(job, -1, 0, "supervisor_failed",
               "the supervisor failed: the kernel does not let a supervisor adopt the orphans of its job "
               "(PR_SET_CHILD_SUBREAPER)");
        return false;
    }
    const char *where = !list_as_claimed(job->directory)   ? "the list of claimed launches"
                        : !reserve_exit(job->directory)    ? job->directory
                        : !make_scratch(orders)            ? orders->scratch_path
                        : !streams_open(&job->streams, orders, job->directory) ? "its input and output"
                                                           : NULL;
    if (where != NULL) {
        snprintf(message, sizeof message, "cannot prepare the job: %s: %s", strerror(errno), where);
        record(job, -1, 0, "launch_failed", message);
        return false;
    }
    log_open(&job->log, orders->log_path, orders->uid, orders->gid, orders->log_max_bytes,
             orders->has_boot_at ? &orders->boot_at : NULL, orders->has_terminal, orders->log_of);
    for (const struct json *note = orders->notes ? orders->notes->first : NULL; note != NULL; note = note->next)
        log_note(&job->log, "%s", note->text);
    if (read_stop_reason(job->directory, reason)) {
        record(job, -1, 0, reason, "stopped before it began");
        return false;
    }
    if (orders->closed != NULL && !fence_cgroup(orders->cgroup, orders->closed)) {
        snprintf(message, sizeof message, "cannot keep the job from the GPUs of others: %s", strerror(errno));
        record(job, -1, 0, "launch_failed", message);
        return false;
    }
    note_numa(job);
    return true;
}

static bool begin(struct job *job, const struct command *command) {
    struct start_failure failure = {-1, ""};
    if (!prepare(job))
        return false;
    job->main_pid = start_program(command, &job->streams, &job->orders, &failure);
    if (job->main_pid < 0) {
        if (!is_noted(&job->orders, failure.message))
            log_note(&job->log, "%s", failure.message);
        record(job, failure.exit_code, 0, failure.exit_code < 0 ? "launch_failed" : "exec_failed", failure.message);
        return false;
    }
    job->children_left = true;
    streams_started(&job->streams);
    job->has_outputs = (command->output != NULL || command->error != NULL) &&
                       keep_outputs(&job->kept, command, &job->outputs);
    job->began_at_s = uptime_s();
    job->started_at = moment(job, job->began_at_s);
    escalation_begin(&job->escalation, &job->orders, &job->log);
    job->escalation.main_pid = job->main_pid;
    if (job->orders.has_time_limit)
        escalation_limit(&job->escalation, job->began_at_s, job->orders.time_limit_s);
    take_time_limit(job);
    /* On a full disk the exit record alone will have the start time. */
    write_started(job->directory, job->main_pid, job->started_at);
    notify(&job->orders);
    return true;
}

/* What the server reads of a supervisor that could not even claim its launch. */
static void complain(const char *directory, const char *what, const char *why) {
    dprintf(2, "corral-supervisor: %s: %s: %s\n", directory, what, why);
}

void supervise(const char *directory) {
    static struct job job = {.started_at = -1};
    struct command command;
    struct arena used = {0};
    char path[PATH_BYTES];
    job.directory = directory;
    /* Before the claim, because a stop comes as a signal to whoever holds the claim. */
    sigset_t heard;
    heard_signals(&heard);
    int signals = signalfd(-1, &heard, SFD_NONBLOCK | SFD_CLOEXEC);
    /* By it the server knows whose supervisor this is, whatever the job does to its record. */
    int held = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (signals < 0 || held < 0 || !path_in(path, directory, "spec.jsonl")) {
        complain(directory, "cannot supervise", strerror(errno));
        return;
    }
    const char *wrong = read_orders(path, &job.kept, &job.orders, &used, &command);
    if (wrong != NULL) {
        complain(directory, "cannot read spec.jsonl", wrong);
        return;
    }
    enum claimed claimed = claim_launch(directory);
    if (claimed == NOT_CLAIMED)
        complain(directory, "cannot claim the launch", strerror(errno));
    if (claimed != CLAIMED)
        return;
    if (!begin(&job, &command))
        return;
    arena_free(&used);
    watch(&job, signals);
    finish(&job);
}
