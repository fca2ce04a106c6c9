"""Users are told of their jobs: in logs, by messages, by commands that they have run.

Start with `job_notes`.
"""
