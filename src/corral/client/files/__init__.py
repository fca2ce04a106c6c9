"""Directories that are sent with jobs, and those that come back.

Start with `sending`.
"""
