"""The places of a ledger's traces: its home, and the homes of the nodes of a mock cluster."""

import os
from pathlib import Path

from corral.core.model.home import Home

DIRECTORIES = ("logs", "scratch", "launches", "notifications", "tuners")
"""The directories of a home whose entries are named after jobs."""


def homes(home: Home) -> list[Home]:
    """Return this home, and the homes of the nodes of a mock cluster. Raises OSError if they cannot be listed."""
    return [home, *(Home(home.nodes / name) for name in sorted(names(home.nodes)))]


def names(directory: Path) -> list[str]:
    """Return the entries of a directory; none if it is missing. Raises OSError if it cannot be read."""
    try:
        return os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
