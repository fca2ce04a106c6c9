"""Who is next: which jobs may start at all, and in which order a cycle looks at them.

Start with `waiting`, the queues of jobs. `order` ranks jobs in a queue, `fair_share` is what some orders rank by,
`admission` checks limits and quotas, and `pools` tells which devices a job may use.
"""
