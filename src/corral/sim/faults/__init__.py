"""A server and its nodes under faults, and what must hold all the same.

Start with `life`.
"""
