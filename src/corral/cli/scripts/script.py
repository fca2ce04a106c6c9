"""Read a script for `submit`: its interpreter, and the #CORRAL and #SBATCH lines at its top."""

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from corral.cli.commands.job_options import SubmitFlags
from corral.cli.direct.plain_script import (
    KEYWORDS,
    header_lines,
    header_words,
    interpreter_in,
    read_text,
    runner,
    why_not_kept,
)
from corral.cli.jobs.flags import filled, parse_words
from corral.cli.jobs.foreign_commands import logical_lines, missing_commands
from corral.cli.scripts.sbatch import read_options, translate
from corral.cli.scripts.sbatch_said import Said
from corral.cli.scripts.script_header import Header
from corral.cli.scripts.script_mistakes import ScriptMistakes
from corral.cli.scripts.split_words import refuse_assignment
from corral.cli.site.site import SERVER, Site
from corral.core.model.errors import Refused
from corral.core.model.jobs.script_copy import MOST_BYTES, STANDARD_INPUT

NOTHING = SubmitFlags()
_PROGRAMS = {".py": "python ", ".sh": "bash ", ".pl": "perl ", ".rb": "ruby ", ".js": "node ", ".R": "Rscript "}


@dataclass(frozen=True)
class Script:
    """A script that can be submitted.

    Attributes:
        command: the command line that runs it.
        flags: the flags in its header; #CORRAL lines override #SBATCH lines.
        origins: the places of the flags in the header, by the names of the flags: "job.sh, line 3".
        text: the text of the script, which is run; None if it is not kept.
        ignored: #SBATCH options that have no meaning here, as "--partition=gpu (line 3)".
        slurm_tasks: the number of tasks in its #SBATCH lines; None if it has no such lines. With them, the script may
            expect the variables that Slurm sets.
        warnings: parts that will not work, and what to do.
        test_only: the header says that nothing is to be submitted.
    """

    command: tuple[str, ...]
    flags: SubmitFlags
    text: str | None = None
    origins: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    slurm_tasks: int | None = None
    warnings: tuple[str, ...] = ()
    test_only: bool = False


def read_script(path: str, arguments: Sequence[str] = (), given: SubmitFlags = NOTHING, site: Site = SERVER) -> Script:
    """The script at `path`, or in standard input if that is "-", to be run with `arguments`.

    `given` are the flags of the command line. The flags of the header must be valid together with them.

    Raises Refused if the script cannot be read, names no interpreter, or has a mistake in its header, with the line.
    Raises Mistaken for several mistakes.
    """
    if path == STANDARD_INPUT:
        return _from_standard_input(sys.stdin.buffer.read(MOST_BYTES + 1), arguments, given, site)
    command = shlex.join([path, *arguments])
    text = _text(path, command)
    if not text.startswith("#!"):
        program = _PROGRAMS.get(Path(path).suffix, "")
        raise Refused(
            f"{path} does not begin with #!, so its interpreter is unknown; begin it with a line such as #!/bin/bash, "
            f"or submit it as a command: corral submit -- {program}{command}"
        )
    runs = (*runner(path, text.partition("\n")[0]), *arguments)
    script, why_not = _script(text, Path(path).name, runs, given, site), why_not_kept(text)
    if why_not is None:
        return script
    warning = f"{path} is not copied, because {why_not}: what runs is what the file says when the job starts"
    return replace(script, text=None, warnings=(*script.warnings, warning))


def _from_standard_input(data: bytes, arguments: Sequence[str], given: SubmitFlags, site: Site) -> Script:
    """The script from standard input. Its name is "stdin" unless its header names it."""
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
    script = _script(text, "standard input", (*interpreter, STANDARD_INPUT, *arguments), given, site)
    return replace(script, flags=filled(script.flags, SubmitFlags(name="stdin")))


def _script(text: str, where: str, runs: tuple[str, ...], given: SubmitFlags, site: Site) -> Script:
    """The script with this text. `runs` is the command that runs it."""
    mistakes, header, lines = ScriptMistakes(), Header(), text.splitlines()
    said: dict[str, Said] = {}
    for number, keyword, rest in header_lines(lines):
        at = f"{where}, line {number}"
        with mistakes.noted():
            words = header_words(rest, at)
            if keyword == "#CORRAL":
                header = header.then(parse_words(SubmitFlags, words, at), at)
            else:
                said |= read_options(words, where, number, mistakes)
    warnings = (*_unread(lines, where), *missing_commands(lines, where, os.environ))
    slurm = translate(said, site, mistakes) if said else None
    for words, at in () if slurm is None else slurm.flags:
        with mistakes.noted():
            header = header.or_else(parse_words(SubmitFlags, words, at), at)
    header.check(given, mistakes)
    mistakes.refuse()
    if slurm is None:
        return Script(runs, header.flags, text, header.origins, warnings=warnings)
    return Script(
        runs,
        header.flags,
        text,
        header.origins,
        slurm.ignored,
        slurm.tasks,
        (*slurm.notes, *warnings),
        test_only=slurm.test_only,
    )


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
    """A warning for each #CORRAL or #SBATCH line after the first command."""
    below = False
    for number, line in logical_lines(lines):
        words = line.split(None, 1)
        if below and words and words[0] in KEYWORDS:
            yield f"{where}, line {number}: {words[0]} is ignored after the first command; move it to the top"
        below = below or bool(words and not words[0].startswith("#"))
