"""The history of devices: their readings, rolled up by level, in a database of its own.

Losing it loses no decision. Start at `recorder.py`, which takes the samples; `rollup.py` is the arithmetic.
"""
