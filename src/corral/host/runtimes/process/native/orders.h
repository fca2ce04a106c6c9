/* What the server tells a supervisor about one launch: supervisor_orders.py says what each of it means. */
#ifndef CORRAL_ORDERS_H
#define CORRAL_ORDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "json.h"

/* Kept while the job runs. Texts that may be missing are NULL. */
struct orders {
    const char *launch_id, *log_path, *scratch_path;
    long uid, gid; /* -1: the server's own */
    bool has_time_limit;
    double time_limit_s, kill_grace_s;
    long long log_max_bytes;
    const struct json *notes;  /* texts */
    const char *cgroup;
    const struct json *limits; /* texts: cgroups that the job must not run outside of */
    const char *notify_path;
    int checkpoint_signal;     /* 0: none */
    double checkpoint_grace_s;
    bool has_boot_at;
    double boot_at;
    const struct json *numa_nodes, *numa_cpus; /* NULL: not bound */
    bool stdin_comes;
    bool has_terminal;
    int rows, columns;
    char checkpoint_target; /* '\0': all processes, 'B': the main process, 'S': all but that */
    bool wrapped;
    double spare_s; /* so long after the grace SIGKILL comes */
    const char *log_of;    /* "": of any job */
    const struct json *closed; /* character devices that the job must not open, as for fence_cgroup; NULL: no fence */
};

/* Needed until the program runs. */
struct command {
    char **argv; /* ends with NULL, as env does */
    char **env;  /* NAME=value */
    const char *workdir;
    mode_t umask;
    bool becomes_user;
    long uid, gid;
    gid_t *groups;
    size_t group_count;
    const struct json *rlimits; /* whole numbers by name */
    const char *output, *error;
    bool append;
    const char *input; /* NULL: empty, or what the streams have */
};

/* Read the file of a launch. `orders` lives as long as `kept`, `command` as long as `used`. NULL, or what is wrong. */
const char *read_orders(const char *path, struct arena *kept, struct orders *orders, struct arena *used,
                        struct command *command);

#endif
