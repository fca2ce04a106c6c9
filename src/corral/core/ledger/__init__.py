"""The ledger: tables and a journal, which one writer writes together in one transaction.

`corral.core.ledger.fold.check` compares the journal with the tables.
Start with `corral.core.ledger.store.open_ledger`, which opens a ledger.
"""
