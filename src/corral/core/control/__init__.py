"""The use cases of the server, the scheduling loop, launching and recovery. It uses ports only, and accesses no host
itself.

`submitting/`, `querying/`, `watching/` and `site/` are use cases, `deciding/` is the scheduling loop, and `launching/`
starts and stops jobs.

Start with `core`, which connects the parts.
"""
