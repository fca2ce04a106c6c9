"""Commands that work on this machine without a server: up, down, doctor, check, estimate, config, simulate, agent.

Only they may import more of the package than the client. Start reading at `server` (up and down) and `doctor`.
"""
