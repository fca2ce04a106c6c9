"""Readings of GPUs from what a cluster has: dcgm-exporter on each node, or a Prometheus that scrapes it.

Start reading at `sources`; `dcgm_text` is pure.
"""
