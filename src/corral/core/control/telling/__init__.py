"""Informs users about their jobs by lines in the logs of these.

Start with `job_notes`.
"""
