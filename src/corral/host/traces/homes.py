"""Where the traces of a ledger are: its home, and those of the nodes of a mock cluster."""

import os
from pathlib import Path

from corral.core.model.home import Home

DIRECTORIES = ("logs", "scratch", "launches", "notifications", "tuners")
"""Of a home, whose entries are named after jobs."""


def homes(home: Home) -> list[Home]:
    """This one, and those of the nodes of a mock cluster. Raises OSError where they cannot be listed."""
    return [home, *(Home(home.nodes / name) for name in sorted(names(home.nodes)))]


def names(directory: Path) -> list[str]:
    """The entries of a directory; none if it is missing. Raises OSError if it cannot be read."""
    try:
        return os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
