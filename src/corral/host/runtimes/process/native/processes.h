/* What /proc says about processes, and signals to all of a job: see procfs.py and killing.py. */
#ifndef CORRAL_PROCESSES_H
#define CORRAL_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct pids {
    pid_t *of;
    size_t count, room;
};

/* Every process below `root`, without itself, parents before children. What forks meanwhile may be missed. */
struct pids descendants(pid_t root);
void pids_free(struct pids *pids);
bool pids_have(const struct pids *pids, pid_t pid);

/* When a process started, in clock ticks since boot; -1 when it does not exist. */
long long start_ticks(pid_t pid);

/* Send the signal to the job's processes: every one below this process, or those that `target` means ('B' the main
   process, 'S' all but that; the only child of a main process that is `wrapped` around a script counts as that). */
void tell_job(int signum, char target, pid_t main_pid, bool wrapped);

/* Ask every process below this one to end; a stopped one is woken so that it can. */
void terminate_job(void);

/* Kill every process below this one. They are stopped first, so that none forks while its siblings die. */
void kill_job(void);

#endif
