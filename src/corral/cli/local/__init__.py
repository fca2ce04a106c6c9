"""Commands that work on this machine without a server: up, down, doctor, check, estimate, config, simulate, agent.

Only these commands may import parts of the package other than the client.
Start reading at `server` (up and down) and `doctor`.
"""
