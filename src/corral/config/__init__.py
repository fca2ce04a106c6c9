"""Read a site's settings, `config.yaml`, strictly into plain values.

`site` reads queues, projects and pools.
Start with `settings`, which has every setting with its default.
"""

from corral.config.settings import HOST, GpuReset, OnIsolation, RebalanceTime, Settings, load_settings

__all__ = ["HOST", "GpuReset", "OnIsolation", "RebalanceTime", "Settings", "load_settings"]
