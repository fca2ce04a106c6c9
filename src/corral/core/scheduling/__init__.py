"""What to do next: pure functions over the view. No I/O, no clock, no randomness.

Start with `planner`, which keeps state between cycles, and `cycle`, which makes one decision. `queueing/` says who is
next, `placing/` where, `evicting/` for whom others are stopped, `promising/` when, `explaining/` why a job waits.
"""
