"""Simulators: the production planner over traces and recorded history, and the live server under load and faults.

Start with `engine`, the discrete-event simulation. `openb`, `swf`, `gavel`, `philly` and `kueue` each read one kind of
trace. `journal` reads a server's own past. `life` and `faults` run the real ledger and control with random failures.
"""
