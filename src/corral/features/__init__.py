"""Capabilities beside deciding about jobs, each in a folder of its own.

A folder has its facts, slice, use cases, routes, client and commands.

Start with `feature`, which says what a feature may bring, and `feature_list`, the list of features.
"""
