"""The nodes that control acts on: their threads, cordons, drains and MIG slices.

Start with `node_registry`.
"""
