"""Why a job failed: the end of its log and what is known of how it ended, in one line with the fix. Pure.

Start with `diagnose`, which applies the rules; each of the other modules has the rules for one kind of failure.
"""
