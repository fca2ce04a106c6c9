"""Free capacity now and later: kept current by deltas, and copied for each decision.

Start with `capacity`, from which each decision starts, then `draft`, its working copy.
`columns` has the same amounts in arrays, for ranking a fleet; `timeline` has what becomes free when.
"""
