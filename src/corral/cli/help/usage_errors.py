"""Messages for errors in a command line. They translate flags and commands of other tools."""

from __future__ import annotations

import sys

from corral.cli.help.help_page import usage_lines
from corral.cli.help.other_tools import no_such_command, no_such_flag
from corral.cli.reading import UnknownCommand, UnknownOption
from corral.cli.screen import told, width
from corral.core.model.errors import nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from corral.cli.declaring import DeclaredOption
    from corral.cli.reading import UsageError


def tell(error: UsageError) -> None:
    """Write the usage of the command and the error to standard error."""
    assert error.command is not None
    name, columns = " ".join(error.path), width()
    lines = [
        *usage_lines(error.path, error.command, columns),
        *told(f"Try '{name} -h' for help.", columns),
        "",
        *told(f"Error: {said_of(error, error.command.declared, error.path[-1])}", columns),
    ]
    sys.stderr.write("".join(f"{line}\n" for line in lines))


def said_of(error: UsageError, options: Sequence[DeclaredOption], command: str = "") -> str:
    """The message of an error, for a command with these options."""
    match error:
        case UnknownOption():
            return no_such_flag(error.spelled, {spelled for one in options for spelled in one.names}, command)
        case UnknownCommand():
            assert error.command is not None
            if len(error.path) > 1 and error.command.commands:
                return f"there is no command {error.name!r}; {nearest(error.name, error.command.commands)}"
            return no_such_command(error.name, error.command.commands)
    return str(error)
