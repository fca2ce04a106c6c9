"""Directories of files: read into trees, and their text and contents as they travel.

Start with `walking`.
"""
