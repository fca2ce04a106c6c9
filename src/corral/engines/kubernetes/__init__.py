"""Kubernetes: nodes of a cluster, jobs as pods, pods of others, model services by OME and KServe.

Start reading at `cluster` (the API server, and caches of its objects), then at `services`.
"""
