"""The rules for what a caller may do. Pure: `corral.api.requests.auth` identifies the caller.

Start with `caller`, then `permissions` (jobs and logs); `token_permissions` is about tokens.
"""
