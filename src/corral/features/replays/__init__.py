"""Replays of past jobs under other policies, which users order and a process of its own runs.

Start with `replay_access`, which has the orders. `replay` runs one, with the simulator.
"""
