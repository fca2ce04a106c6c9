"""Why a job waits, in sentences with numbers, and what its user can do about it.

Start with `why`. `shortage` says what is missing, `impossible` what no node could ever serve, `suggestions` what would
start now, `eviction_notices` who is evicted for whom; `phrases` names requests, devices and jobs.
"""
