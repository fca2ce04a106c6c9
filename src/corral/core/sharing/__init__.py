"""Sharing devices between jobs: by MIG, MPS, time slices, or not at all, and how strictly each limits a job.

`memory_overuse` is the memory guard, `resources` reads the resource names of other systems, and `alloc_map` says which
part of each device is allocated.
Start with `arrange`, which applies the site's rules to a node.
"""
