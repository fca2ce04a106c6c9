/* The cgroups of a job, which cgroup.py and cgroup_limits.py find a place for. */
#ifndef CORRAL_CGROUPS_H
#define CORRAL_CGROUPS_H

#include <stdbool.h>

/* Move the calling process in. */
bool cgroup_join(const char *path);

/* Kill every process inside and below; a cgroup that is not there holds none. */
void cgroup_kill(const char *path);

/* Remove the cgroup and those that the job made below it, as far as they are empty. */
void cgroup_remove(const char *path);

/* How many processes inside the kernel has killed because they reached the group's limit, and that limit. */
long long cgroup_kills_for_memory(const char *path, long long *limit_mib);

#endif
