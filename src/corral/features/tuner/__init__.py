"""Tasks of the autotuner and their experiments: their facts, their slice of the ledger, and its table.

Start reading at `slice`.
"""
