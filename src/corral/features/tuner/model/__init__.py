"""Tasks of the autotuner and their experiments, and the presets that tasks may name.

Start with `tuning_task`.
"""
