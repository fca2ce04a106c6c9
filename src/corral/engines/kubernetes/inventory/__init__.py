"""The nodes, devices and pods of a Kubernetes cluster as the rest of Corral knows them.

Readings of GPUs are in `readings`.
"""
