"""The autotuner: finds the parameters with which an inference server serves a model best, on GPUs from Corral's server.

The server keeps tasks and experiments as records. A process for each task, an ordinary client, runs the experiments.
`search/` only decides which combination to try next.

Start with `task_access`, then `running.task_run`.
"""
