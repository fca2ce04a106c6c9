/* How a job is ended: a signal to save its work, SIGTERM, the grace, then SIGKILL until nothing of it is left. */
#ifndef CORRAL_KILL_GRACE_H
#define CORRAL_KILL_GRACE_H

#include <stdbool.h>
#include <sys/types.h>

#include "log.h"
#include "orders.h"

struct escalation {
    const struct orders *orders;
    struct log *log;
    pid_t main_pid;
    bool is_due_once, killing;
    double deadline_s; /* of the next step, in seconds since boot, where `is_due_once` */
    double kill_retry_s;
    bool has_limit, has_notice;
    double notice_at_s, ends_at_s, limit_s;
    char stop_reason[512]; /* why the job was told to end, "" while it was not */
};

void escalation_begin(struct escalation *escalation, const struct orders *orders, struct log *log);

/* The job may run so long from `began_at_s` on. What it was limited to before counts no more. */
void escalation_limit(struct escalation *escalation, double began_at_s, double limit_s);

/* How many milliseconds until the next step is due, -1 when none is. */
double escalation_wait_ms(const struct escalation *escalation);

/* Take the step that is due: at the time limit, at the end of the grace, or as the main process left others. */
void escalation_go_on(struct escalation *escalation, bool main_ended);

/* SIGTERM to all of the job; SIGKILL follows when its grace is over. Only the first reason counts. */
void escalation_stop(struct escalation *escalation, const char *reason);

/* SIGKILL to all of the job. To be repeated, at growing intervals, until nothing is left. */
void escalation_kill(struct escalation *escalation);

#endif
