"""Inference servers as far as all count them: parameters of parallelism, the GPUs that they need, presets.

Start with `parallelism`.
"""
