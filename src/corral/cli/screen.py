"""Output functions that all commands share: messages, colours, times, JSON."""

from __future__ import annotations

import json
import os
import re
import sys

from corral.core.model.errors import CorralError, Forbidden, NotFound, Refused
from corral.core.model.printable import printable

TYPE_CHECKING = False  # every command loads this module, so it imports as little as possible
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import IO, Any

_STYLES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}

_OWN_COLOUR = rf"(\033\[(?:0|{'|'.join(_STYLES.values())})m)"

_OF_OTHERS = "  | "

_NO_BREAK = "\0"

USAGE = 2
"""The exit code for bad input."""


def write_lines(*lines: str) -> None:
    """Write lines to standard output, escaped, so that a name or command of a user cannot send control codes."""
    sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))


def write_fields(rows: Iterable[Sequence[str]]) -> None:
    """Write rows for another program. Fields are escaped as in `write_lines` and separated by tabs."""
    sys.stdout.write("".join("\t".join(map(printable, row)) + "\n" for row in rows))


def write_painted(*lines: str) -> None:
    """Write lines like `write_lines`, but keep colours from `painted`. Other text must have gone through `clipped`."""
    sys.stdout.write("".join(f"{all_but_colours(line)}\n" for line in lines))


def all_but_colours(line: str) -> str:
    """`line` made printable, except for the colours that `painted` adds."""
    parts = re.split(_OWN_COLOUR, line)
    return "".join(part if number % 2 else printable(part) for number, part in enumerate(parts))


def say(message: str) -> None:
    """Write a message to standard error, so that it never mixes with a command's output. Wrapped on a terminal."""
    lines = told(f"corral: {message}", width() if sys.stderr.isatty() else None)
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    sys.stderr.flush()


def complain_of(error: CorralError) -> None:
    """Write an error. If its field was given as a flag, the message names the flag as it was typed."""
    message, field = str(error), getattr(error, "field", None)
    flag = f"--{field}".partition("[")[0].replace("_", "-")
    if field and message.startswith(f"{field}: ") and any(word.partition("=")[0] == flag for word in sys.argv):
        message = flag + message[len(field) :]
    complain(message)


def complain(message: str) -> None:
    """Write why something is not done, like `say`. Without a terminal, lines are wrapped to a default width."""
    sys.stderr.write("".join(f"{line}\n" for line in told(f"corral: {message}", width())))
    sys.stderr.flush()


def told(text: str, columns: int | None) -> list[str]:
    """`text`, made printable, in lines of at most `columns` (None: no limit). All lines but the first are indented.

    Later lines of the text come from another program. They get a mark, so that they cannot pass for Corral's own.
    """
    first, *others = text.splitlines() or [""]
    lines = _indented(printable(first), "", "  ", columns)
    for other in others:
        lines += _indented(printable(other.expandtabs()), _OF_OTHERS, _OF_OTHERS, columns)
    return lines


def _indented(line: str, first: str, others: str, columns: int | None) -> list[str]:
    if columns is None or len(first) + len(line) <= columns:
        return [f"{first}{line}".rstrip()]
    start, *rest = wrapped(line, columns - len(others))
    return [f"{first}{start}", *(f"{others}{part}" for part in rest)]


def wrapped(text: str, columns: int) -> list[str]:
    """`text` in lines of at most `columns`, broken only at spaces. Paths and commands in backquotes stay whole."""
    import textwrap

    joined = re.sub(r"`[^`]*`", lambda command: command[0].replace(" ", _NO_BREAK), text)
    lines = textwrap.wrap(joined, columns, break_long_words=False, break_on_hyphens=False)
    return [line.replace(_NO_BREAK, " ") for line in lines]


def typed() -> str:
    """The name of this command for the user to type: `corral` if the shell finds it, else the way it was typed now."""
    import shlex
    import shutil

    found, here = shutil.which("corral"), sys.argv[0]
    if not os.path.isfile(here) or (found is not None and os.path.samefile(found, here)):
        return "corral"
    return shlex.quote(here)


def exit_code_of(error: CorralError, *, otherwise: int = 1) -> int:
    """The exit code of an error: 2 for bad input, `otherwise` for every other error."""
    refused = isinstance(error, Refused) and not isinstance(error, (NotFound, Forbidden))
    return USAGE if refused else otherwise


def print_json(value: Any) -> None:
    """Write one JSON value to standard output: indented on a terminal, else in one line."""
    _write_json(value, 2 if sys.stdout.isatty() else None)


def print_json_line(value: Any) -> None:
    """Write one JSON value as a line of a stream, and flush it for the reader."""
    _write_json(value, None)
    sys.stdout.flush()


def _write_json(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent, default=_plain)
    # JSON escapes every control character except this one.
    sys.stdout.write(text.replace("\x7f", "\\u007f") + "\n")


def _plain(value: object) -> Any:
    from corral.wire import to_plain

    return to_plain(value)


def write_document(text: str) -> None:
    """Write a document for a file or another program unchanged. Its author must have escaped the texts of users."""
    sys.stdout.write(text)


def painted(text: str, style: str, stream: IO[str] | None = None) -> str:
    """`text`, made printable, in this style if the output is a terminal and NO_COLOR is not set."""
    text = printable(text)
    stream = stream or sys.stdout
    if os.environ.get("NO_COLOR") or not stream.isatty() or not text:
        return text
    return f"\033[{_STYLES[style]}m{text}\033[0m"


def width() -> int:
    """The width of the terminal in columns, at least 40; 80 if there is no terminal."""
    import shutil

    return max(40, shutil.get_terminal_size((80, 24)).columns)


def room() -> int | None:
    """The width of an output line: the terminal's; None if the output is not a terminal and nothing is cut."""
    return width() if sys.stdout.isatty() else None


def fitted(text: str, used: int = 0, least: int = 8) -> str:
    """`text`, made printable and cut to the rest of a line with `used` columns taken, but not below `least` columns."""
    columns = room()
    return printable(" ".join(text.split())) if columns is None else clipped(text, max(least, columns - used))


def clipped(text: str, columns: int) -> str:
    """`text`, made printable and cut to at most `columns`, with "…" where it was cut."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= columns else line[: max(0, columns - 1)] + "…"


def clipped_line(line: str) -> str:
    """`line`, cut to the width of the terminal, with its indent."""
    indent = len(line) - len(line.lstrip())
    return " " * indent + fitted(line, indent)
