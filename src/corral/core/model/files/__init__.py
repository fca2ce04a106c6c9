"""Directories of files as values: what is uploaded for a job, and what a job leaves for its user.

Start with `tree`.
"""
