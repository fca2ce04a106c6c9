"""Messages to users about the starts and ends of their jobs: the facts, and the slice of the ledger.

Start with `slice`, which decides when a message becomes due.
"""
