"""The devices of hosts and their state: sources of samples, the sampler of a host, and the hub that listens to all
nodes.

`discover` finds the source of a host, `device_condition` judges samples, and `attribution` finds the owners of
processes on a device.

Start with `sampler` and `hub`.
"""
