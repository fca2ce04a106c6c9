"""Turns what a client submits into jobs.

Start reading at `new_jobs`; `checks` and `site_rules` refuse bad submissions, `preflight` finds what would fail.
"""
