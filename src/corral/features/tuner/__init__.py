"""Tasks of the autotuner and their experiments: their facts, their slice of the ledger, and their table.

Start with `slice`.
"""
