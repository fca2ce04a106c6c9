"""A site's settings, from the file into force.

Start with `from_settings`, which turns them into queues, pools and limits;
`reloading` does it again while a server runs.
"""
