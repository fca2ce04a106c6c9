"""Records of launches by server and supervisors, and their readers.

Start with `launch_records`.
"""
