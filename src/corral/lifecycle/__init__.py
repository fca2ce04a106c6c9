"""What may happen to a job: each step as a pure function from a view, or a job, to the facts that result.

`by` is who causes them, a user or a `ServerPart`, and `at` is when, in Unix seconds. Server, simulator and forecasts
take the same steps. Start reading at `starting`, then `ending`.
"""
