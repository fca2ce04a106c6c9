"""Which running jobs are evicted for which waiting ones.

Start with `preemption`, the rules by which a job may evict others; `victims` chooses whom.
`time_slicing` evicts at the end of a quantum, `idle_reclaim` takes back GPUs that are allocated and not used.
"""
