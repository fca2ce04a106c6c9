"""Readings of GPUs in a cluster: from dcgm-exporter on each node, or from a Prometheus that scrapes it.

Start reading at `cluster_readings`; `dcgm_text` is pure.
"""
