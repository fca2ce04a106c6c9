"""Applies a site's settings to a running server.

Start reading at `from_settings`, which turns them into queues, pools and limits;
`reloading` does it again on SIGHUP.
"""
