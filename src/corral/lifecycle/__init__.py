"""What may happen to a job: each step is a pure function from a view to facts.

Start with `transitions`. The server, the simulator and the forecasts use the same functions.
"""
