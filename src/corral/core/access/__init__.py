"""Decides who may do what. Pure: `corral.api.requests.auth` finds out who the caller is.

Start reading at `caller` (jobs, devices, logs); `grant` is about tokens.
"""
