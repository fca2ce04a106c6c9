"""Capabilities beside scheduling, one folder each. The core does not know them by name.

Start with `all_slices`, which lists their parts of the ledger.
"""
