"""Queues, and the quotas of their jobs.

Start with `queue`.
"""
