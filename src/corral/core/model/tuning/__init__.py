"""Tasks of the autotuner and their experiments.

Start with `tuning_task`.
"""
