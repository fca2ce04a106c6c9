"""Work on a host: its node agent, runtimes that start work, and readings of devices.

Start with `node.local`.
"""
