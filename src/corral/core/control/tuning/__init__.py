"""Tasks of the autotuner and their experiments: what people and the tuner have written down.

The tuner itself is a client like any other. Start reading at `task_access`.
"""
