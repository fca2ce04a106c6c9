"""Jobs: what is asked for, how it is written, and what may be changed.

Start with `job`.
"""
