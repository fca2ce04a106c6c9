"""Threads that check rules at intervals and act if one is broken.

Start with `memory_guard`, for shared devices; `idle_gpus` takes back GPUs that are allocated and not used.
"""
