"""Reads a script for `submit`: its interpreter, and the #CORRAL and #SBATCH lines at its top."""

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from corral.cli.direct.plain_script import KEYWORDS, header_lines, interpreter_in, read_text, runner, why_not_kept
from corral.cli.flags import SubmitFlags, filled, parse_words
from corral.cli.foreign_commands import logical_lines, missing_commands
from corral.cli.sbatch import read_options, translate
from corral.cli.sbatch_resources import Said
from corral.cli.split_words import refuse_assignment
from corral.model.errors import Refused
from corral.model.script_copy import MOST_BYTES, STANDARD_INPUT

_PROGRAMS = {".py": "python ", ".sh": "bash ", ".pl": "perl ", ".rb": "ruby ", ".js": "node ", ".R": "Rscript "}


@dataclass(frozen=True)
class Script:
    """A script that can be submitted.

    Attributes:
        command: the command line that runs it.
        flags: what its header asks for; #CORRAL lines win over #SBATCH lines.
        text: what it says, for that to be run; None where it is not kept.
        ignored: #SBATCH options that have no meaning here, as "--partition=gpu (line 3)".
        slurm_tasks: how many tasks its #SBATCH lines ask for; None if it has no such lines. With them it may expect the
            variables that Slurm sets.
        warnings: what will not work as it stands, and what to do.
    """

    command: tuple[str, ...]
    flags: SubmitFlags
    text: str | None = None
    ignored: tuple[str, ...] = ()
    slurm_tasks: int | None = None
    warnings: tuple[str, ...] = ()


def read_script(path: str, arguments: Sequence[str] = ()) -> Script:
    """The script at `path`, or in standard input where that is "-", to be run with `arguments`.

    Raises Refused when it cannot be read, does not say what runs it, or its header has a mistake (with the line).
    """
    if path == STANDARD_INPUT:
        return _from_standard_input(sys.stdin.buffer.read(MOST_BYTES + 1), arguments)
    command = shlex.join([path, *arguments])
    text = _text(path, command)
    if not text.startswith("#!"):
        program = _PROGRAMS.get(Path(path).suffix, "")
        raise Refused(
            f"{path} does not begin with #!, so its interpreter is unknown; begin it with a line such as #!/bin/bash, "
            f"or submit it as a command: corral submit -- {program}{command}"
        )
    runs = (*runner(path, text.partition("\n")[0]), *arguments)
    script, why_not = _script(text, Path(path).name, runs), why_not_kept(text)
    if why_not is None:
        return script
    warning = f"{path} is not copied, because {why_not}: what runs is what the file says when the job starts"
    return replace(script, text=None, warnings=(*script.warnings, warning))


def _from_standard_input(data: bytes, arguments: Sequence[str]) -> Script:
    """The script that was read from standard input. It is called "stdin" unless its header names it."""
    text = data.decode(errors="surrogateescape")
    if (why_not := why_not_kept(text)) is not None:
        raise Refused(
            f"the script in standard input cannot be kept, because {why_not}; save it in a file and submit that"
        )
    if not text.startswith("#!"):
        raise Refused(
            "the script in standard input does not begin with #!, so its interpreter is unknown; begin it with a line "
            "such as #!/bin/bash"
        )
    interpreter = interpreter_in(text.partition("\n")[0], "the script in standard input")
    script = _script(text, "standard input", (*interpreter, STANDARD_INPUT, *arguments))
    return replace(script, flags=filled(script.flags, SubmitFlags(name="stdin")))


def _script(text: str, where: str, runs: tuple[str, ...]) -> Script:
    """The script with this text, which `runs` runs."""
    flags, said, lines = SubmitFlags(), dict[str, Said](), text.splitlines()
    for number, keyword, words in header_lines(lines, where):
        if keyword == "#CORRAL":
            flags = filled(parse_words(SubmitFlags, words, f"{where}, line {number}"), flags)
        else:
            said |= read_options(words, where, number)
    warnings = (*_unread(lines, where), *missing_commands(lines, where, os.environ))
    if not said:
        return Script(runs, flags, text, warnings=warnings)
    slurm = translate(said)
    for words, at in slurm.flags:
        flags = filled(flags, parse_words(SubmitFlags, words, at))
    return Script(runs, flags, text, slurm.ignored, slurm.tasks, warnings)


def _text(path: str, command: str) -> str:
    try:
        return read_text(path)
    except (FileNotFoundError, IsADirectoryError) as error:
        refuse_assignment(path)
        raise Refused(
            f"there is no script {path}; to submit a command, write it after --: corral submit -- {command}"
        ) from error
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from error


def _unread(lines: Sequence[str], where: str) -> Iterator[str]:
    """A warning for each #CORRAL or #SBATCH line that comes after the first command."""
    below = False
    for number, line in logical_lines(lines):
        words = line.split(None, 1)
        if below and words and words[0] in KEYWORDS:
            yield f"{where}, line {number}: {words[0]} is ignored after the first command; move it to the top"
        below = below or bool(words and not words[0].startswith("#"))
