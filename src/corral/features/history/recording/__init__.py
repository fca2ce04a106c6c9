"""Records the readings of devices and of their holders, in a database of its own.

`recorder.py` takes the samples and writes them as roll-ups by level; `rollup.py` is their arithmetic. `meter.py` and
`group_use.py` record sums for reports and key figures. Start with `recorder.py`.
"""
