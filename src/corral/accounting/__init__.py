"""GPU-hours: their holders, their use, the enforcement of limits, and their cost. Pure.

Start with `gpu_hours`; `report` builds on `held_devices` and `price_list`.
"""
