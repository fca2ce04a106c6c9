"""GPU-hours: who held them, how well limits were enforced, what was made of them, and what they cost. Pure.

Start with `gpu_hours`; `report` stands on `held_devices` and `price_list`.
"""
