"""The site's settings: what may be said in `config.yaml`, read strictly into plain values."""

from corral.config.settings import Settings, load_settings

__all__ = ["Settings", "load_settings"]
