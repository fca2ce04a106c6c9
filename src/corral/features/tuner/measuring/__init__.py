"""Load generators, and the figures from their measurements.

Start with `generators`.
"""
