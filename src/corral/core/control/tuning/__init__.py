"""The use cases for tasks of the autotuner and their experiments: the records that users and the tuner write.

The tuner itself is an ordinary client.

Start with `task_access`.
"""
