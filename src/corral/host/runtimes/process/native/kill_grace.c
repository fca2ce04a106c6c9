#include "kill_grace.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cgroups.h"
#include "processes.h"

static const double KILL_RETRY_S = 0.05, LONGEST_KILL_RETRY_S = 1.0;

void escalation_begin(struct escalation *escalation, const struct orders *orders, struct log *log) {
    *escalation = (struct escalation){.orders = orders, .log = log, .kill_retry_s = KILL_RETRY_S};
}

static void set_deadline(struct escalation *escalation, double at_s) {
    escalation->is_due_once = true;
    escalation->deadline_s = at_s;
}

void escalation_limit(struct escalation *escalation, double began_at_s, double limit_s) {
    const struct orders *orders = escalation->orders;
    escalation->has_limit = true;
    escalation->limit_s = limit_s;
    escalation->ends_at_s = began_at_s + limit_s;
    escalation->notice_at_s = escalation->ends_at_s - orders->checkpoint_grace_s;
    /* A limit that is not longer than the notice has none: the signal would kill a program that has just started and
       does not expect it yet. Nor has one that is over: no time is left to save anything. */
    escalation->has_notice = orders->checkpoint_signal != 0 && orders->checkpoint_grace_s < limit_s &&
                             escalation->ends_at_s > uptime_s();
    if (escalation->stop_reason[0] == '\0' && !escalation->killing)
        set_deadline(escalation, escalation->has_notice ? escalation->notice_at_s : escalation->ends_at_s);
}

double escalation_wait_ms(const struct escalation *escalation) {
    if (!escalation->is_due_once)
        return -1;
    double left_s = escalation->deadline_s - uptime_s();
    /* Rounded up, so that the supervisor's loop does not spin during the last millisecond. */
    return (left_s > 0 ? left_s : 0) * 1000 + 1;
}

static const char *signal_name(int signum, char name[16]) {
    static const char *const names[] = {
        [SIGHUP] = "HUP",   [SIGINT] = "INT",   [SIGQUIT] = "QUIT", [SIGILL] = "ILL",       [SIGTRAP] = "TRAP",
        [SIGABRT] = "ABRT", [SIGBUS] = "BUS",   [SIGFPE] = "FPE",   [SIGKILL] = "KILL",     [SIGUSR1] = "USR1",
        [SIGSEGV] = "SEGV", [SIGUSR2] = "USR2", [SIGPIPE] = "PIPE", [SIGALRM] = "ALRM",     [SIGTERM] = "TERM",
        [SIGCHLD] = "CHLD", [SIGCONT] = "CONT", [SIGSTOP] = "STOP", [SIGTSTP] = "TSTP",     [SIGTTIN] = "TTIN",
        [SIGTTOU] = "TTOU", [SIGURG] = "URG",   [SIGXCPU] = "XCPU", [SIGXFSZ] = "XFSZ",     [SIGVTALRM] = "VTALRM",
        [SIGPROF] = "PROF", [SIGWINCH] = "WINCH", [SIGIO] = "IO",   [SIGPWR] = "PWR",       [SIGSYS] = "SYS",
    };
    bool known = (size_t)signum < sizeof names / sizeof *names && names[signum] != NULL;
    if (known)
        snprintf(name, 16, "SIG%s", names[signum]);
    else
        snprintf(name, 16, "signal %d", signum);
    return name;
}

/* Its time limit is near: let the job save what it has. */
static void give_notice(struct escalation *escalation) {
    const struct orders *orders = escalation->orders;
    char name[16];
    escalation->has_notice = false;
    set_deadline(escalation, escalation->ends_at_s);
    log_note(escalation->log, "%s was sent: the job is stopped at its time limit, in %.0f s",
             signal_name(orders->checkpoint_signal, name), escalation->ends_at_s - uptime_s());
    tell_job(orders->checkpoint_signal, orders->checkpoint_target, escalation->main_pid, orders->wrapped);
}

/* A duration in its two largest units, "2h 5m", as the rest of Corral writes it. */
static void in_words(double seconds, char words[48]) {
    static const struct {
        char unit;
        long long seconds;
    } sizes[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
    long long left = (long long)seconds;
    int length = 0, parts = 0;
    words[0] = '\0';
    for (int i = 0; i < 4; i++) {
        long long count = left / sizes[i].seconds;
        left %= sizes[i].seconds;
        if ((count == 0 && parts == 0) || parts == 2)
            continue;
        parts++;
        if (count > 0)
            length += snprintf(words + length, 48 - (size_t)length, "%s%lld%c", length ? " " : "", count, sizes[i].unit);
    }
    if (length == 0)
        snprintf(words, 48, "%gs", seconds);
}

static void time_is_up(struct escalation *escalation) {
    escalation_stop(escalation, "timed_out");
    char limit[48], grace[48], at[32];
    in_words(escalation->limit_s, limit);
    in_words(escalation->orders->kill_grace_s, grace);
    time_t now = time(NULL);
    strftime(at, sizeof at, "%Y-%m-%d %H:%M:%S", localtime(&now));
    log_note(escalation->log, "its time limit of %s was reached at %s: SIGTERM was sent, SIGKILL follows in %s", limit,
             at, grace);
}

void escalation_go_on(struct escalation *escalation, bool main_ended) {
    bool stopped = escalation->stop_reason[0] != '\0';
    bool due = escalation->is_due_once && uptime_s() >= escalation->deadline_s;
    if (escalation->killing) {
        if (due)
            escalation_kill(escalation);
    } else if ((main_ended && !stopped) || (due && stopped)) {
        escalation_kill(escalation);
    } else if (due && escalation->has_limit) {
        if (escalation->has_notice)
            give_notice(escalation);
        else
            time_is_up(escalation);
    }
}

void escalation_stop(struct escalation *escalation, const char *reason) {
    if (escalation->stop_reason[0] != '\0')
        return;
    snprintf(escalation->stop_reason, sizeof escalation->stop_reason, "%s", reason);
    set_deadline(escalation, uptime_s() + escalation->orders->kill_grace_s + escalation->orders->spare_s);
    terminate_job();
    if (escalation->orders->has_terminal)
        /* As when a terminal is closed: a shell at one takes no notice of SIGTERM. */
        tell_job(SIGHUP, '\0', 0, false);
}

void escalation_kill(struct escalation *escalation) {
    bool again = escalation->killing;
    escalation->killing = true;
    if (escalation->orders->cgroup != NULL)
        cgroup_kill(escalation->orders->cgroup);
    if (again || escalation->orders->cgroup == NULL)
        /* After the cgroup only what left it remains, and that is met on the next round. */
        kill_job();
    set_deadline(escalation, uptime_s() + escalation->kill_retry_s);
    escalation->kill_retry_s *= 2;
    if (escalation->kill_retry_s > LONGEST_KILL_RETRY_S)
        escalation->kill_retry_s = LONGEST_KILL_RETRY_S;
}
