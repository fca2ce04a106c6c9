"""Reads a script for `submit`: its interpreter, and the #CORRAL and #SBATCH lines at its top."""

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from corral.cli.direct.plain_script import KEYWORDS, STANDARD_INPUT, header_lines, header_words, interpreter_in, runner
from corral.cli.flags import SubmitFlags, filled, parse_words
from corral.cli.foreign_commands import logical_lines, missing_commands
from corral.cli.mistakes import Mistakes
from corral.cli.sbatch import read_options, translate
from corral.cli.sbatch_said import Said
from corral.cli.script_header import Header
from corral.cli.site import SERVER, Site
from corral.cli.split_words import refuse_assignment
from corral.model.errors import Refused

_MOST_BYTES = 120 * 1024
"""The kernel takes no variable of 128 KiB or more."""

_KEPT_IN = "CORRAL_SCRIPT"
_RUN_KEPT = 'printf %s "$CORRAL_SCRIPT" > "$CORRAL_SCRATCH/script" && unset CORRAL_SCRIPT && exec {} "$@"'
"""A script of standard input is in a variable until it runs: others see commands, and not variables."""

NOTHING = SubmitFlags()
_PROGRAMS = {".py": "python ", ".sh": "bash ", ".pl": "perl ", ".rb": "ruby ", ".js": "node ", ".R": "Rscript "}


@dataclass(frozen=True)
class Script:
    """A script that can be submitted.

    Attributes:
        command: the command line that runs it.
        flags: what its header asks for; #CORRAL lines win over #SBATCH lines.
        origins: where the header says it, by the names of the flags: "job.sh, line 3".
        ignored: #SBATCH options that have no meaning here, as "--partition=gpu (line 3)".
        slurm_tasks: how many tasks its #SBATCH lines ask for; None if it has no such lines. With them it may expect the
            variables that Slurm sets.
        warnings: what will not work as it stands, and what to do.
        env: variables that it needs, as "NAME=VALUE".
        test_only: it says that nothing is to be submitted.
    """

    command: tuple[str, ...]
    flags: SubmitFlags
    origins: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    slurm_tasks: int | None = None
    warnings: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    test_only: bool = False


def read_script(path: str, arguments: Sequence[str] = (), given: SubmitFlags = NOTHING, site: Site = SERVER) -> Script:
    """The script at `path`, or in standard input where that is "-", to be run with `arguments`.

    `given` are the flags of the command line, beside which those of its header must make sense.

    Raises Refused when it cannot be read, does not say what runs it, or its header has a mistake: with its line, and
    Mistaken for several.
    """
    if path == STANDARD_INPUT:
        return _kept_script(sys.stdin.buffer.read(_MOST_BYTES + 1), arguments, given, site)
    command = shlex.join([path, *arguments])
    lines = _lines(path, command)
    if not lines or not lines[0].startswith("#!"):
        program = _PROGRAMS.get(Path(path).suffix, "")
        raise Refused(
            f"{path} does not begin with #!, so its interpreter is unknown; begin it with a line such as #!/bin/bash, "
            f"or submit it as a command: corral submit -- {program}{command}"
        )
    return _script(lines, Path(path).name, (*runner(path, lines[0]), *arguments), given, site)


def with_itself(script: Script, path: str, arguments: Sequence[str] = ()) -> Script:
    """The script, read from `path`, as it runs where this file is not: within a container. Raises Refused."""
    try:
        kept = _kept_script(Path(path).read_bytes()[: _MOST_BYTES + 1], arguments, script.flags, SERVER)
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from error
    named = filled(script.flags, SubmitFlags(name=Path(path).name))
    return replace(script, command=kept.command, env=(*script.env, *kept.env), flags=named)


def _kept_script(data: bytes, arguments: Sequence[str], given: SubmitFlags, site: Site) -> Script:
    """The script that was read from standard input. It is called "stdin" unless its header names it."""
    if len(data) > _MOST_BYTES or b"\0" in data:
        what = "has more than 120 KiB" if len(data) > _MOST_BYTES else "has a zero byte"
        raise Refused(f"the script in standard input {what}; save it in a file and submit that")
    text = os.fsdecode(data)
    lines = text.splitlines()
    if not lines or not lines[0].startswith("#!"):
        raise Refused(
            "the script in standard input does not begin with #!, so its interpreter is unknown; begin it with a line "
            "such as #!/bin/bash"
        )
    interpreter = interpreter_in(lines[0], "the script in standard input")
    runs = _RUN_KEPT.format(f'{shlex.join(interpreter)} "$CORRAL_SCRATCH/script"')
    script = _script(lines, "standard input", ("sh", "-c", runs, "script", *arguments), given, site)
    named = filled(script.flags, SubmitFlags(name="stdin"))
    return replace(script, flags=named, env=(f"{_KEPT_IN}={text}",))


def _script(lines: Sequence[str], where: str, runs: tuple[str, ...], given: SubmitFlags, site: Site) -> Script:
    """The script of these lines, which `runs` runs."""
    mistakes, header = Mistakes(), Header()
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
        return Script(runs, header.flags, header.origins, warnings=warnings)
    warnings = (*slurm.notes, *warnings)
    return Script(runs, header.flags, header.origins, slurm.ignored, slurm.tasks, warnings, test_only=slurm.test_only)


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


def _unread(lines: Sequence[str], where: str) -> Iterator[str]:
    """A warning for each #CORRAL or #SBATCH line that comes after the first command."""
    below = False
    for number, line in logical_lines(lines):
        words = line.split(None, 1)
        if below and words and words[0] in KEYWORDS:
            yield f"{where}, line {number}: {words[0]} is ignored after the first command; move it to the top"
        below = below or bool(words and not words[0].startswith("#"))
