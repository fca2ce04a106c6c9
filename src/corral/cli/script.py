"""A script as `submit` takes it: what runs it, and the #CORRAL and #SBATCH lines at its top."""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from corral.cli.flags import SubmitFlags, filled, parse_words
from corral.model.errors import Refused
from corral.model.units import parse_slurm_time_s

_GPUS = re.compile(r"(?:([A-Za-z][\w.-]*):)?(\d+)")
_GRES = re.compile(r"gpu(?::([A-Za-z][\w.-]*))?(?::(\d+))?(?:\(.*\))?")
_NICE_PER_STEP = 100  # what a bare --nice means in Slurm is one step of priority here
_DEFAULT_PRIORITY = 5
_PROGRAMS = {".py": "python ", ".sh": "bash ", ".pl": "perl ", ".rb": "ruby ", ".js": "node ", ".R": "Rscript "}


@dataclass(frozen=True)
class Script:
    """A script that can be submitted.

    Attributes:
        command: the words that run it.
        flags: what its header asks for; #CORRAL lines win over #SBATCH lines.
        ignored: #SBATCH options that mean nothing here, as "--partition=gpu (line 3)".
        for_slurm: it has #SBATCH lines, and so may expect the variables that Slurm sets.
    """

    command: tuple[str, ...]
    flags: SubmitFlags
    ignored: tuple[str, ...] = ()
    for_slurm: bool = False


def read_script(path: str, arguments: Sequence[str] = ()) -> Script:
    """The script at `path`, to be run with `arguments`.

    Raises Refused when it cannot be read, does not say what runs it, or its header has a mistake (with the line).
    """
    command = shlex.join([path, *arguments])
    lines = _lines(path, command)
    if not lines or not lines[0].startswith("#!"):
        program = _PROGRAMS.get(Path(path).suffix, "")
        raise Refused(
            f"{path} does not begin with #! and so does not say what runs it; begin it with #!/bin/bash or the like, "
            f"or submit it as a command: corral submit -- {program}{command}"
        )
    where = Path(path).name
    flags, slurm, ignored, for_slurm = SubmitFlags(), SubmitFlags(), list[str](), False
    for number, keyword, words in _header(lines, where):
        at = f"{where}, line {number}"
        if keyword == "#CORRAL":
            flags = filled(parse_words(SubmitFlags, words, at), flags)
        else:
            for_slurm = True
            ours, passed_over = translate_sbatch(words, at)
            slurm = filled(parse_words(SubmitFlags, ours, at), slurm)
            ignored += [f"{option} (line {number})" for option in passed_over]
    return Script((*_runner(path, lines[0]), *arguments), filled(flags, slurm), tuple(ignored), for_slurm)


def translate_sbatch(words: Sequence[str], where: str) -> tuple[list[str], list[str]]:
    """Corral's flags for the options of one #SBATCH line, and the options that mean nothing here.

    The options are those of sbatch(1). Raises Refused for those that matter and cannot be had.
    """
    ours: list[str] = []
    ignored: list[str] = []
    for option, value in _options(words):
        name = _SHORT.get(option, option.lstrip("-"))
        flags = _MEANINGS[name](value, f"{where}: {option}") if name in _MEANINGS else None
        if flags is None:
            ignored.append(option if value is None else f"{option}{'=' if option.startswith('--') else ' '}{value}")
        else:
            ours += flags
    return ours, ignored


def _lines(path: str, command: str) -> list[str]:
    try:
        return Path(path).read_text(errors="surrogateescape").splitlines()
    except (FileNotFoundError, IsADirectoryError) as error:
        raise Refused(
            f"there is no script {path}; a command is submitted after --: corral submit -- {command}"
        ) from error
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from error


def _runner(path: str, first_line: str) -> list[str]:
    """What the kernel would run it with; a script need not be executable."""
    full_path = os.path.abspath(path)
    if os.access(full_path, os.X_OK):
        return [full_path]
    interpreter = first_line[2:].strip().split(None, 1)
    if not interpreter:
        raise Refused(f"{path} begins with #! and nothing after it; begin it with #!/bin/bash")
    return [*interpreter, full_path]


def _header(lines: Iterable[str], where: str) -> Iterator[tuple[int, str, list[str]]]:
    """Line number, keyword and words of each header line, down to the first line that is no comment."""
    for number, line in enumerate(lines, start=1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            return
        keyword, _, rest = stripped.partition(" ")
        if keyword in ("#CORRAL", "#SBATCH"):
            try:
                yield number, keyword, shlex.split(rest, comments=True)
            except ValueError as error:
                raise Refused(f"{where}, line {number}: {error}; a quote may be missing") from error


def _options(words: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Options with their values: --name=value, --name value, -Nvalue, -N value."""
    left = list(words)
    while left:
        word = left.pop(0)
        if word.startswith("--"):
            option, equals, given = word.partition("=")
        else:
            option, equals, given = word[:2], word[2:], word[2:].removeprefix("=")
        value: str | None = given if equals else None
        if value is None and left and not left[0].startswith("-") and option.startswith("-"):
            value = left.pop(0)
        yield option, value


def _passing(flag: str) -> "_Meaning":
    return lambda value, where: [flag, _required(value, where)]


def _required(value: str | None, where: str) -> str:
    if not value:
        raise Refused(f"{where} needs a value")
    return value


def _time(value: str | None, where: str) -> list[str]:
    text = _required(value, where)
    if text.lower() in ("0", "infinite", "unlimited"):
        return []
    return ["--time", f"{parse_slurm_time_s(text, field=where):.0f}s"]


def _gpus(value: str | None, where: str) -> list[str]:
    match = _GPUS.fullmatch(_required(value, where))
    if match is None:
        raise Refused(f"{where}: {value!r} is no number of GPUs; write such as 2 or a100:2")
    return _of_model(match[1], match[2])


def _gres(value: str | None, where: str) -> list[str] | None:
    match = _GRES.fullmatch(_required(value, where))
    return None if match is None else _of_model(match[1], match[2] or "1")


def _of_model(model: str | None, count: str) -> list[str]:
    return ["--gpus", count, *(["--gpu-model", model] if model else [])]


def _dependency(value: str | None, where: str) -> list[str]:
    flags = []
    for condition in _required(value, where).split(","):
        kind, *ids = condition.split(":")
        if kind != "afterok" or not ids or not all(ids):
            raise Refused(f"{where}: {condition!r} cannot be had; only afterok:ID[:ID...] can")
        for job_id in ids:
            flags += ["--after", job_id]
    return flags


def _memory(value: str | None, where: str) -> list[str]:
    size = _required(value, where)
    if size.rstrip("KMGTkmgt") == "0":
        return []
    return ["--host-memory", f"{size}M" if size.isdigit() else size]


def _nice(value: str | None, where: str) -> list[str]:
    try:
        nice = int(value or _NICE_PER_STEP)
    except ValueError as error:
        raise Refused(f"{where}: {value!r} is no number") from error
    steps = -(-nice // _NICE_PER_STEP) if nice > 0 else nice // _NICE_PER_STEP
    return ["--priority", str(_DEFAULT_PRIORITY + steps)]


def _one(value: str | None, where: str) -> list[str] | None:
    """One node, one task: what a job here is anyway."""
    return [] if value == "1" else None


_Meaning = Callable[[str | None, str], list[str] | None]

_SHORT = {
    "-J": "job-name", "-t": "time", "-G": "gpus", "-a": "array", "-d": "dependency", "-D": "chdir",
    "-b": "begin", "-c": "cpus-per-task", "-H": "hold", "-N": "nodes", "-n": "ntasks",
}  # fmt: skip

_MEANINGS: dict[str, _Meaning] = {
    "job-name": _passing("--name"),
    "time": _time,
    "gres": _gres,
    "gpus": _gpus,
    "gpus-per-node": _gpus,
    "array": _passing("--array"),
    "begin": _passing("--begin"),
    "dependency": _dependency,
    "chdir": _passing("--workdir"),
    "cpus-per-task": _passing("--cpus"),
    "mem": _memory,
    "nice": _nice,
    "hold": lambda value, where: ["--hold"],
    "nodes": _one,
    "ntasks": _one,
    "ntasks-per-node": _one,
}
"""Corral's flags for each option of sbatch that is understood; None for a value that means nothing here."""
