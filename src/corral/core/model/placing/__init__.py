"""Where a job can go: what is free, what fits, what was chosen and committed.

Start with `allocation`, then `fit`.
"""
