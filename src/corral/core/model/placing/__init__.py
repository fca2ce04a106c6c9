"""Placement of jobs: what is free, what fits, and which devices were chosen and allocated.

Start with `allocation`, then `fit`.
"""
