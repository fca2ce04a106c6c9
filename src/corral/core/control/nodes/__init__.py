"""The nodes that the server controls: their threads, cordons, drains and MIG slices, and the handling of nodes that are
gone or return.

`gone_and_returned_nodes` gives up the jobs of a node that is gone, and reconciles a node that returns.
Start with `node_registry`.
"""
