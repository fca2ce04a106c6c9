"""Devices and the nodes that hold them.

Start with `device`.
"""
