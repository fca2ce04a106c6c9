"""`corral version` and `corral --version`."""

from __future__ import annotations

import corral
from corral.cli.screen import write_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.cli.declaring import DeclaredCommand


def print_version(given: DeclaredCommand) -> None:
    """Print the version of Corral."""
    write_lines(f"corral {corral.__version__}")
