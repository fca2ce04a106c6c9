"""Launches on this node, and commands beside them.

Start with `node_launches`.
"""
