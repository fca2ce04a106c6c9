"""Turns options as users write them into a submission.

Start with `request`.
"""
