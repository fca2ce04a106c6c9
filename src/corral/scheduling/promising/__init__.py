"""What waiting jobs are promised, and when they will start.

Start with `backfill`, which makes a promise and fills in behind it; `forecast` asks the planner about the future.
"""
