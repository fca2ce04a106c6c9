"""The device plugin of a node: which devices it offers to the kubelet, and which pod gets which.

Start reading at `plugin_core.py`, which decides. `device_plugins.py` acts.
"""
