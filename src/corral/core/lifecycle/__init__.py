"""The steps of a job: each is a pure function from a view, or a job, to the resulting facts.

`by` is the user or the `ServerPart` that causes them, and `at` is the time in Unix seconds. Server, simulator and
forecasts take the same steps. Start reading at `starting`, then `ending`.
"""
