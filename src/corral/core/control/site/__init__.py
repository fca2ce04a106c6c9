"""Applies a site's settings to a running server.

`reloading` applies them again on SIGHUP or a request.

Start with `from_settings`, which converts settings to queues, pools and limits.
"""
