"""The health of devices for people: its list and history, an administrator's word, and the evidence for a vendor.

`corral.core.lifecycle.device_health` decides what the health of a device is, and the core's watch writes it down.
"""
