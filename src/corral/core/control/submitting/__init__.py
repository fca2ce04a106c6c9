"""Turns a client's submissions into jobs.

Start reading at `new_jobs`; `submission_checks` and `site_rules` refuse bad submissions, `preflight` predicts failures.
"""
