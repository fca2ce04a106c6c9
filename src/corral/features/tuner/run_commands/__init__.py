"""The commands of the autotuner, as they run.

Start with `tune`.
"""
