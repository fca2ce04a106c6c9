"""The routes, one module for each kind of object.

Start with `jobs`.
"""
