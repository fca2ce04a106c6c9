"""Where nodes come from, besides this host and mock clusters.

Start with `kubernetes`.
"""
