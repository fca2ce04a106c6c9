"""Who makes room for whom, and what they are told.

Start with `victims`, which chooses; `preemption`, `time_slicing` and `idle_reclaim` are the rules that may ask for it.
"""
