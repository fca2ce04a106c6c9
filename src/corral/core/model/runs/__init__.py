"""Attempts to run a job: launches, their ends, and what is remembered of them.

Start with `launch`.
"""
