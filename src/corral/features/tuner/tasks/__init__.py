"""Tasks: their checks, estimates, findings and reports.

Start with `task_check`.
"""
