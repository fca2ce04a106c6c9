"""Contents of users' files, kept by their digests, and directories that are made of them.

Start with `content_store`.
"""
