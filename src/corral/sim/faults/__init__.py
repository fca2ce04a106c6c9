"""A server and its nodes under faults, and the promises that must be kept all the same.

Start with `life`.
"""
