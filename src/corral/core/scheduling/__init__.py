"""Scheduling decisions: pure functions over the view. No I/O, no clock, no randomness.

`planner` keeps state between cycles, and `cycle` makes one decision. `queueing/` says which job is next, `placing/`
where it goes, `evicting/` which jobs are stopped for it, `promising/` when it starts, `explaining/` why it waits.
Start with `planner`.
"""
