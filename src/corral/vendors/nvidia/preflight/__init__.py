"""The checks before a job runs on NVIDIA's devices.

Start at `preflight_rules.py`.
"""
