"""The Protocols between the pure rooms and the edges. Code that decides knows these, never the implementations.

Start with `node`, all work on a host, and `ledger`, the authoritative state. A node agent itself builds on `runtime`,
`telemetry` and `host`.
"""
