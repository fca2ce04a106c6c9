"""The truth: tables and a journal, written together in one transaction by one writer.

`corral.core.ledger.store.open_ledger` opens it, `corral.core.ledger.fold.check` compares the journal with the tables.
"""
