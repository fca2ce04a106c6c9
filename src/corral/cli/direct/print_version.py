"""`corral version` and `corral --version`."""

from __future__ import annotations

import corral
from corral.cli.screen import write_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.cli.declaring import Command


def print_version(given: Command) -> None:
    """Print the version of Corral."""
    write_lines(f"corral {corral.__version__}")
