"""Commands of the autotuner, and model services.

Start with `tune`.
"""
