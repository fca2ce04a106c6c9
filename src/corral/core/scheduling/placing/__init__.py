"""Finds the nodes and devices that could serve a request, and the best of them.

`packing` places a whole job. `scores` says which node is better, and `start_recheck` tests a planned start again.
Start with `packing`.
"""
