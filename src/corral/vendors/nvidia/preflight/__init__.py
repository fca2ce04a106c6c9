"""What is checked before a job runs on NVIDIA's devices.

Start at `rules.py`.
"""
