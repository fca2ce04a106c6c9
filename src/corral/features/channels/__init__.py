"""Who is told of the starts and ends of jobs: the facts, and the slice of the ledger."""
