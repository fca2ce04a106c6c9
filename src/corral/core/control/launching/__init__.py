"""Launches, follows and stops committed jobs on their nodes.

Start with `dispatcher`.
"""
