"""Readings of GPUs in a cluster: from dcgm-exporter on each node, from a Prometheus that scrapes these, or by
nvidia-smi.

Start reading at `cluster_readings`; `dcgm_text` is pure.
"""
