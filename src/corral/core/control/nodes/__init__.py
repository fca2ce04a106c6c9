"""The nodes that the server controls: their threads, cordons, drains and MIG slices.

Start with `node_registry`.
"""
