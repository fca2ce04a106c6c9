"""Jobs: what they ask for, how users write it, and what may change later.

Start with `job`.
"""
