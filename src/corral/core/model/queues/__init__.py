"""Queues, and how much their jobs may hold.

Start with `queue`.
"""
