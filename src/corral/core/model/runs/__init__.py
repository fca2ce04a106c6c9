"""Attempts to run a job: launches, their ends, and the history of past runs.

Start with `launch`.
"""
