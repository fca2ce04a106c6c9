"""Threads that look every so often and act where a rule is broken.

Start with `guards`, for the memory of shared devices; `idle_gpus` takes back what is held and not used.
"""
