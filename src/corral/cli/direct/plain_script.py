"""Scripts with only plain #CORRAL lines; the interpreter of a script, and the lines of its header."""

from __future__ import annotations

import os
import re

from corral.cli.jobs.foreign_commands import FOREIGN_COMMANDS
from corral.core.model.errors import Refused
from corral.core.model.jobs.script_copy import MOST_BYTES, STANDARD_INPUT, interpreter_of, size_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_SURELY_KEPT = 1024 * 1024
KEYWORDS = ("#CORRAL", "#SBATCH")


def plain_script(path: str, arguments: Sequence[str]) -> tuple[list[str], list[list[str]], str] | None:
    """The command that runs the script, the words of each #CORRAL line, and the script's text.

    None if this simple reader does not suffice: no such file, standard input, #SBATCH lines, mistakes, warnings, or a
    script that cannot be kept.
    """
    if path == STANDARD_INPUT:
        return None
    try:
        text = read_text(path)
        lines = text.splitlines()
        if why_not_kept(text) or not text.startswith("#!") or "#SBATCH" in text or re.search(FOREIGN_COMMANDS, text):
            return None
        header = [header_words(rest, path) for _, _, rest in header_lines(lines)]
        command = [*runner(path, lines[0]), *arguments]
    except (OSError, ValueError, Refused):
        return None
    return (command, header, text) if len(header) == text.count("#CORRAL") else None


def read_text(path: str) -> str:
    """The script's text. From a script that is too long to be kept, only enough to show that. Raises OSError."""
    with open(path, "rb") as file:
        return file.read(MOST_BYTES + 1).decode(errors="surrogateescape")


def why_not_kept(text: str) -> str | None:
    """The reason why a script cannot be kept; None if it can."""
    if "\0" in text:
        return "it has a zero byte"
    if len(text) > _SURELY_KEPT and size_of(text) > MOST_BYTES:
        return "it has more than 4 MiB"
    if not text.isascii() and re.search("[\udc80-\udcff]", text):
        return "it is not UTF-8 text"
    if len(text) > _SURELY_KEPT:
        import json

        if len(json.dumps(text)) > 2 * MOST_BYTES:
            return "it has too much that is not plain text"
    return None


def runner(path: str, first_line: str) -> list[str]:
    """The command that runs the script. The script need not be executable. Raises Refused."""
    full_path = os.path.abspath(path)
    if os.access(full_path, os.X_OK):
        return [full_path]
    return [*interpreter_in(first_line, path), full_path]


def interpreter_in(first_line: str, whose: str) -> tuple[str, ...]:
    """The program in a first line, and perhaps one argument. Raises Refused if the line names no program."""
    words = interpreter_of(first_line)
    if not words:
        raise Refused(f"{whose} begins with #! but names no interpreter; write one, such as #!/bin/bash")
    return words


def header_lines(lines: Iterable[str]) -> Iterator[tuple[int, str, str]]:
    """Line number, keyword and rest of each header line, down to the first line that is not a comment."""
    for number, line in enumerate(lines, start=1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            return
        keyword, rest = [*stripped.split(None, 1), "", ""][:2]
        if keyword in KEYWORDS:
            yield number, keyword, rest


def header_words(rest: str, where: str) -> list[str]:
    """The words of a header line after its keyword. Raises Refused."""
    import shlex

    try:
        return shlex.split(rest, comments=True)
    except ValueError as error:
        raise Refused(f"{where}: {error}; is a quote missing?") from error
