/* Executing a job's program in its own session, with its own environment, directory, limits and user. */
#ifndef CORRAL_START_H
#define CORRAL_START_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "orders.h"
#include "streams.h"

struct start_failure {
    int exit_code; /* what a shell would return, -1 where the machine failed */
    char message[2048];
};

/* Execute the program. Its pid, once it surely runs; -1 with why. */
pid_t start_program(const struct command *command, const struct streams *streams, const struct orders *orders,
                    struct start_failure *failure);

/* What is needed of a command to look at the disks of its files for output later. False where there is no memory. */
bool keep_outputs(struct arena *arena, const struct command *command, struct command *kept);

/* The file for output whose disk is full, "" where none is, or none answers within 2 s. */
void full_disk(const struct command *command, char *path, size_t room);

/* Bind this process, and all that it starts, to CPUs and memory of NUMA nodes. False with why it is not possible. Memory is
   preferred and not demanded: a job that needs more than these nodes have gets it from others, where a strict policy would
   have the kernel kill it. */
bool bind_to_numa_nodes(const struct orders *orders, char *why, size_t room);

#endif
