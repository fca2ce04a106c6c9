"""The autotuner: finds the parameters with which a model is served best, on GPUs that the server hands out.

`search/` decides what to try next, and does nothing else.
"""
