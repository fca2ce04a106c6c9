"""The routes, a module for each kind of thing.

Start with `jobs`.
"""
