"""What the devices of hosts are and do: sources of samples, the sampler of a host, and the hub that hears all nodes.

Start with `sampler` and `hub`; `discover` finds the source of a host, `condition` judges samples, `attribution` tells
whose processes are on a device.
"""
