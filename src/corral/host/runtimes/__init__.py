"""Runtimes: each launches, stops, reports and lists launches of one kind, and knows nothing of queues.

`process/` runs jobs as supervised processes, `reserved_and_adopted` holds devices for people and for
processes that Corral did not start, and `simulated` runs nothing, for tests and simulations.
"""
