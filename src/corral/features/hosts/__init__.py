"""Hosts that are joined to a server by SSH: add, list, check and remove them.

The connections are those of `corral.engines.hosts`.
"""
