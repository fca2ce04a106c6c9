"""Kubernetes: nodes of a cluster, jobs as pods, pods of others.

Start reading at `cluster` (the API server, and caches of its objects), then at `engine`.
"""
