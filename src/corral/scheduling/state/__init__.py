"""What is free and what is to become free: kept current by deltas, copied for one decision.

Start with `capacity`, which a decision begins from; `columns` holds the same for arrays, `timeline` the future.
"""
