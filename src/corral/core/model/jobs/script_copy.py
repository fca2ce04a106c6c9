"""The copy of a script that its job runs: what it says at submission, whatever becomes of its file later.

The text is kept among the variables of the job's environment, which the ledger keeps once for all jobs that share it.
No process gets that variable.
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
    """What the first line of a script names: a program, and perhaps one argument; () where it names none."""
    first = text.partition("\n")[0]
    return tuple(first[2:].strip().split(None, 1)) if first.startswith("#!") else ()


def size_of(text: str) -> int:
    """How many bytes the script has."""
    return len(text.encode(errors="surrogateescape"))


def place_of_script(command: Sequence[str], text: str) -> int:
    """Which word of the command is the script: the first, or the one after its interpreter."""
    interpreter = interpreter_of(text)
    runs_it = len(command) > len(interpreter) and tuple(command[: len(interpreter)]) == interpreter
    return len(interpreter) if runs_it else 0


def kept_text(env: Iterable[tuple[str, str]]) -> str | None:
    """The script that a job's environment keeps."""
    return next((value for name, value in env if name == VARIABLE), None)
