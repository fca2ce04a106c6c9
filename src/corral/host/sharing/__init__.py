"""The host's part of device sharing: the drivers of all means of sharing, scratch directories, and resource files.

Start with `scratch`.
"""
