"""Promises: where and when a waiting job will start at the latest.

`backfill` finds a promise, and `run_time` estimates how long jobs run.
Start with `backfill`.
"""
