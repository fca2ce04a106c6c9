"""Turns a client's submissions into jobs.

Start reading at `new_jobs`; `checks` and `site_rules` refuse bad submissions, `preflight` predicts failures.
"""
