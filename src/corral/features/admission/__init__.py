"""The routes that a cluster's API server asks before it takes a pod.

Start at `admission_calls.py`.
"""
