"""Files of users and jobs on this node.

Start with `file_inspector`.
"""
