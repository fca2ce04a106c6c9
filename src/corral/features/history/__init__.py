"""The history of devices, jobs, nodes, users and projects, and key figures.

Start at `server_history.py`, which connects the parts. `recording/` writes them, `asking.py` answers from them, and
`key_figures.py` computes key figures. No decision depends on the history.
"""
