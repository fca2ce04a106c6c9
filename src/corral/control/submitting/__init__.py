"""From what a client sends to jobs in the ledger.

Start with `new_jobs`; `checks` and `site_rules` refuse, `preflight` warns of what would fail.
"""
