"""Reads a site's settings, `config.yaml`, strictly into plain values.

Start reading at `settings` (every setting with its default); `site` reads queues, projects and pools.
"""

from corral.config.settings import HOST, OnIsolation, Settings, load_settings

__all__ = ["HOST", "OnIsolation", "Settings", "load_settings"]
