"""Sharing devices between jobs: by MIG, MPS, time slices, or not at all, and how each limits a job to its share.

Start with `driver`, what every means of sharing must do; `guard` watches memory, `resources` reads the resource names
of other systems, and `alloc_map` tells which part of each device is allocated.
"""
