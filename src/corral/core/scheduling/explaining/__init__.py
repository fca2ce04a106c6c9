"""Explains why a job waits, in sentences with numbers, and what its user can do about it.

`shortage` says what is missing, `impossible` what no node could ever serve, `suggestions` what would start now, and
`eviction_notices` which job is evicted for which; `phrases` names requests, devices and jobs.
Start with `why`.
"""
