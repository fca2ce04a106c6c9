"""Promises: where and when a waiting job will start at the latest.

Start with `backfill`, which finds a promise; `run_time` estimates how long jobs run.
"""
