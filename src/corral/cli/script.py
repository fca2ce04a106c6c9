"""Reads a script for `submit`: its interpreter, and the #CORRAL and #SBATCH lines at its top."""

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from corral.cli.flags import SubmitFlags, filled, parse_words
from corral.cli.foreign_commands import logical_lines, missing_commands
from corral.cli.sbatch import read_options, translate
from corral.cli.sbatch_resources import Said
from corral.cli.split_words import refuse_assignment
from corral.model.errors import Refused

_KEYWORDS = ("#CORRAL", "#SBATCH")
_PROGRAMS = {".py": "python ", ".sh": "bash ", ".pl": "perl ", ".rb": "ruby ", ".js": "node ", ".R": "Rscript "}


@dataclass(frozen=True)
class Script:
    """A script that can be submitted.

    Attributes:
        command: the command line that runs it.
        flags: what its header asks for; #CORRAL lines win over #SBATCH lines.
        ignored: #SBATCH options that have no meaning here, as "--partition=gpu (line 3)".
        slurm_tasks: how many tasks its #SBATCH lines ask for; None if it has no such lines. With them it may expect the
            variables that Slurm sets.
        warnings: what will not work as it stands, and what to do.
    """

    command: tuple[str, ...]
    flags: SubmitFlags
    ignored: tuple[str, ...] = ()
    slurm_tasks: int | None = None
    warnings: tuple[str, ...] = ()


def read_script(path: str, arguments: Sequence[str] = ()) -> Script:
    """The script at `path`, to be run with `arguments`.

    Raises Refused when it cannot be read, does not say what runs it, or its header has a mistake (with the line).
    """
    command = shlex.join([path, *arguments])
    lines = _lines(path, command)
    if not lines or not lines[0].startswith("#!"):
        program = _PROGRAMS.get(Path(path).suffix, "")
        raise Refused(
            f"{path} does not begin with #!, so its interpreter is unknown; begin it with a line such as #!/bin/bash, "
            f"or submit it as a command: corral submit -- {program}{command}"
        )
    where = Path(path).name
    flags, said = SubmitFlags(), dict[str, Said]()
    for number, keyword, words in _header(lines, where):
        if keyword == "#CORRAL":
            flags = filled(parse_words(SubmitFlags, words, f"{where}, line {number}"), flags)
        else:
            said |= read_options(words, where, number)
    runs = (*_runner(path, lines[0]), *arguments)
    warnings = (*_unread(lines, where), *missing_commands(lines, where, os.environ))
    if not said:
        return Script(runs, flags, warnings=warnings)
    slurm = translate(said)
    for words, at in slurm.flags:
        flags = filled(flags, parse_words(SubmitFlags, words, at))
    return Script(runs, flags, slurm.ignored, slurm.tasks, warnings)


def _lines(path: str, command: str) -> list[str]:
    try:
        return Path(path).read_text(errors="surrogateescape").splitlines()
    except (FileNotFoundError, IsADirectoryError) as error:
        refuse_assignment(path)
        raise Refused(
            f"there is no script {path}; to submit a command, write it after --: corral submit -- {command}"
        ) from error
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from error


def _runner(path: str, first_line: str) -> list[str]:
    """The command that runs the script. It need not be executable."""
    full_path = os.path.abspath(path)
    if os.access(full_path, os.X_OK):
        return [full_path]
    interpreter = first_line[2:].strip().split(None, 1)
    if not interpreter:
        raise Refused(f"{path} begins with #! but names no interpreter; write one, such as #!/bin/bash")
    return [*interpreter, full_path]


def _unread(lines: Sequence[str], where: str) -> Iterator[str]:
    """A warning for each #CORRAL or #SBATCH line that comes after the first command."""
    below = False
    for number, line in logical_lines(lines):
        words = line.split(None, 1)
        if below and words and words[0] in _KEYWORDS:
            yield f"{where}, line {number}: {words[0]} is ignored after the first command; move it to the top"
        below = below or bool(words and not words[0].startswith("#"))


def _header(lines: Iterable[str], where: str) -> Iterator[tuple[int, str, list[str]]]:
    """Line number, keyword and words of each header line, down to the first line that is no comment."""
    for number, line in enumerate(lines, start=1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            return
        keyword, rest = [*stripped.split(None, 1), "", ""][:2]
        if keyword in _KEYWORDS:
            try:
                yield number, keyword, shlex.split(rest, comments=True)
            except ValueError as error:
                raise Refused(f"{where}, line {number}: {error}; is a quote missing?") from error
