"""The autotuner: finds the parameters with which an inference server serves a model best, on GPUs from Corral's server.

`search/` only decides which combination to try next.

Start with `task_run`.
"""
