"""What a ledger has left in its home outside of itself: logs, launches, claims, history, messages.

A ledger may be restored from an older copy, or be gone. What it has left tells then what it knew.
"""
