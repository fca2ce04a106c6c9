"""Traces of a ledger in its home, outside of the ledger's file: logs, launches, claims, history, messages.

A ledger may be gone, or may have been restored from an older copy. These traces then show what the lost ledger knew.
"""
