"""Decides which running jobs are evicted for which waiting jobs.

`preemption` has the rules by which a job may evict others, and `victims` chooses the jobs to evict. `time_slicing`
evicts at the end of a quantum. `idle_reclaim` takes back GPUs that are allocated and not used.
Start with `preemption`.
"""
