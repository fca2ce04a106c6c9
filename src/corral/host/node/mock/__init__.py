"""Mock clusters: agents of nodes that do not exist.

Start with `mock_nodes`.
"""
