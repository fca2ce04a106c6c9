"""Ending a launch and all that it has started.

Start with `killing`.
"""
