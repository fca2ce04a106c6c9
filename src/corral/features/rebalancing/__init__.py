"""Moves of running jobs, at night or on request, so that large jobs find room.

The planner decides on them (`corral.core.scheduling.evicting.moving`).
"""
