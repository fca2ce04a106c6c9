"""Informs users about their jobs: by lines in logs, by messages, and by commands of the users.

Start with `job_notes`.
"""
