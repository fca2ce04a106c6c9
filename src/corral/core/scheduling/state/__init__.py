"""Free capacity now and later: kept current by deltas, and copied for each decision.

Each decision works on a `draft`, a working copy of `capacity`. `columns` has the same amounts in arrays, for ranking a
fleet. `timeline` says what becomes free when.
Start with `capacity`.
"""
