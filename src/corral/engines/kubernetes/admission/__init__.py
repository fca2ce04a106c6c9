"""The questions of a cluster's API server before it takes a pod: what to set in it, and whether it can ever run.

Start at `pod_admission.py`.
"""
