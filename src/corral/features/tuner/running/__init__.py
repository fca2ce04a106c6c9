"""The process that runs a task: it asks the search, runs the experiments, and ends the task.

Start with `task_run`.
"""
