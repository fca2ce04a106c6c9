"""Load generators, and the figures of what they measured.

Start with `generators`.
"""
