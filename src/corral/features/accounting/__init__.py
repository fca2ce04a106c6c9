"""GPU-hours: their holders, their use, the enforcement of limits, and their cost.

Start with `gpu_reports.py`, which adds up grants with their measurements; `report_sums.py` is its arithmetic, over
`held_devices.py` and `price_list.py`. `accounts.py` tells usage and fair shares, from the ledger alone.
"""
