"""Traces of a ledger in its home, outside of the ledger's file: logs, launches, claims, history, messages.

A ledger may be restored from an older copy, or be gone. What it has left tells then what it knew.
"""
