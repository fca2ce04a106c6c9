"""Runtimes: each launches, stops, reports and lists launches of one kind, and knows nothing of queues.

`process/` runs jobs as supervised processes, `watch` follows processes that Corral did not start, and `simulated` runs
nothing, for tests and simulations.
"""
