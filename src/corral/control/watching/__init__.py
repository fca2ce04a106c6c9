"""Threads that look every so often and act where a rule is broken.

Start with `memory_guard`, for shared devices; `idle_gpus` takes back what is allocated and not used.
"""
