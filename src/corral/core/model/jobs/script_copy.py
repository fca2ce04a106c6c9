"""The copy of a script, made at submission: its job runs the copy, even if the file changes later.

The text is one of the variables in the job's environment. The ledger stores an environment once for all jobs that share
it. No process gets this variable.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

VARIABLE = "CORRAL_SCRIPT_TEXT"
MOST_BYTES = 4 * 1024 * 1024
STANDARD_INPUT = "-"
"""Stands in a command for a script that has no file."""


def interpreter_of(text: str) -> tuple[str, ...]:
    """The program, and perhaps one argument, that the first line of a script names; () if it names none."""
    first = text.partition("\n")[0]
    return tuple(first[2:].strip().split(None, 1)) if first.startswith("#!") else ()


def size_of(text: str) -> int:
    """The size of the script in bytes."""
    return len(text.encode(errors="surrogateescape"))


def place_of_script(command: Sequence[str], text: str) -> int:
    """The position of the script in the command: 0, or after its interpreter."""
    interpreter = interpreter_of(text)
    runs_it = len(command) > len(interpreter) and tuple(command[: len(interpreter)]) == interpreter
    return len(interpreter) if runs_it else 0


def kept_text(env: Iterable[tuple[str, str]]) -> str | None:
    """The script text in a job's environment, None if there is none."""
    return next((value for name, value in env if name == VARIABLE), None)
