"""Published traces and benchmarks, run on the production core.

Start with `openb`.
"""
