"""Users are told of the starts and ends of their jobs: the facts, and the slice of the ledger.

Start reading at `slice`, which says when that becomes due.
"""
