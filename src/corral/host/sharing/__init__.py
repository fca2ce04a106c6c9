"""What sharing a device takes on its host: drivers of the means, scratch directories, resource files.

Start with `scratch`.
"""
