"""Decides which parameters to try next, and how long to measure each. Pure: measurements come in, a candidate goes out.

The strategies are `grid_search.py`, `random_search.py`, `tpe_search.py` and `racing_search.py`. The last uses
`surrogate.py`, a model of all readings, and `start_chance.py`, a model of failures. `space.py` has the combinations,
`objective.py` the objectives, `scoring.py` the scores, and `trial.py` the data exchanged between a search and its
tuner. `problem.py` reads a task.

Start with `search.py`, which asks one of the strategies.
"""
