"""The rules who may do what. Pure: `corral.api.requests.auth` finds out who the caller is.

Start with `caller`, then `permissions` (jobs and logs); `token_permissions` is about tokens.
"""
