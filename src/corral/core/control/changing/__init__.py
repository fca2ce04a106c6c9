"""Jobs are chosen and changed.

Start with `job_changes`.
"""
