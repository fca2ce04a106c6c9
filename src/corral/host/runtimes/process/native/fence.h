/* What keeps a job from opening the GPUs of others: a program on the job's cgroup, which the kernel asks for each device. */
#ifndef CORRAL_FENCE_H
#define CORRAL_FENCE_H

#include <stdbool.h>

#include "json.h"

/* Make the cgroup, and close these character devices to all that is ever in it or below. `closed` has three numbers for
   each range of devices: major, first minor, last minor. What is in no range stays as it was. False with errno. */
bool fence_cgroup(const char *cgroup, const struct json *closed);

/* The same for a cgroup that a server fills, with the numbers as JSON, which is changed: 0 once it is closed. Else 1, says why
   on the standard error, and removes the cgroup. */
int fence_one(const char *cgroup, char *closed);

/* Whether a fence holds on this machine: 0 where a process in the cgroup, which is made and removed, cannot open what is
   closed to it. Else 1, and says why on the standard error. */
int try_fence(const char *cgroup);

#endif
