"""The supervisor that is compiled from C, where this installation has it: what it costs is a tenth of Python's."""

import os

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "native", "corral-supervisor")


def native_command(socket_fd: int, launches: str) -> list[str] | None:
    """The command line that runs it, as `zygote.command` runs the one in Python; None where there is none."""
    return [PATH, str(socket_fd), launches] if os.access(PATH, os.X_OK) else None
