"""The output and the input of jobs.

Start with `log_marks`.
"""
