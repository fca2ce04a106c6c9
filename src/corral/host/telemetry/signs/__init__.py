"""The signs of a fault in the readings of a device. Pure: samples bring the time.

Start with `device_signs`; `sign_rules` has what counts as a fault.
"""
