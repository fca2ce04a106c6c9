"""Where the server is, and how requests reach it.

Start with `transport`.
"""
