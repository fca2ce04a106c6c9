"""Decides which jobs may start at all, and in which order a cycle looks at them.

`waiting` has the queues of jobs, and `order` ranks jobs in a queue. Some orders rank by `fair_share`. `admission`
checks limits and quotas, and `pools` says which devices a job may use.
Start with `waiting`.
"""
