"""What devices were like: their readings, rolled up by level, in a database of its own.

Losing it loses no decision. Start at `recorder.py`, which hears the samples; `rollup.py` is the arithmetic.
"""
