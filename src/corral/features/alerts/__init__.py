"""Alerts and silences: their facts, and their slice of the ledger.

Start with `slice`.
"""
