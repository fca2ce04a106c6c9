"""Explains why a job failed, from the end of its log and the facts about its end, in one line with the fix. Pure.

Start with `diagnose`, which applies the rules. Each other module has the rules for one kind of failure.
"""
