"""Capabilities beside deciding about jobs, a folder each. The core knows none of them by name.

`all_slices` lists what they keep in the ledger.
"""
