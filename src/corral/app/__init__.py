"""The server as a running process: it wires all rooms together, runs as a process, and can begin with an empty ledger.

Start with `server`.
"""
