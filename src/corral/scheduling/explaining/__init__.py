"""Why a job waits, in sentences with numbers.

Start with `why`; `shortage` counts what is missing, `phrases` names requests, devices and jobs.
"""
