"""What the server does: use cases, the scheduling loop, launching and recovery. Knows ports, and touches no host.

Start with `core`, which puts the parts together; `controller` is the loop, `dispatcher` launches and stops.
`submitting/`, `querying/`, `watching/` and `site/` are the use cases.
"""
