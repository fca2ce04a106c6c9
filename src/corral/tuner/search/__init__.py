"""Which parameters to try next, and how long to measure each. Pure: what was measured comes in, a candidate goes out.

Start at `search.py`, which asks one of the strategies (`grid_search.py`, `random_search.py`, `tpe_search.py`,
`racing_search.py`, which has a model of all readings in `surrogate.py` and one of failures in `start_chance.py`).
`space.py` has what can be tried, `objective.py` what is wanted, `scoring.py` how good it was, `trial.py` what passes
between a search and its tuner, `problem.py` reads a task.
"""
