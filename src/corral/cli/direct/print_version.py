"""`corral version` and `corral --version`."""

import corral
from corral.cli.screen import write_lines


def print_version() -> int:
    """Print the version of Corral."""
    write_lines(f"corral {corral.__version__}")
    return 0
