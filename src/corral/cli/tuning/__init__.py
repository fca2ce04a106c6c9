"""Commands of the autotuner, and commands for model services.

Start with `tune`.
"""
