"""The Protocols between the pure rooms and the edges. Who decides knows these, never what stands behind them.

Start with `node`, all that is done on a host, and `ledger`, the truth.
`runtime`, `telemetry` and `host` are what a node agent itself stands on. `replaying` is how a simulation is asked for.
"""
