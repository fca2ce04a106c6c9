"""Look up a job's program, in the same way as the start of the job will.

`look_up` reads files, as the user who calls it. `trouble` uses the same words as a failed start.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from corral.core.model.printable import printable
from corral.files import read_start

CORRALS_OWN = ("srun",)
"""Programs that Corral provides: a job finds them before all others on its PATH."""
_INSTEAD = {"python": "python3"}
_FIRST_LINE_BYTES = 256
_SHOWN_CHARACTERS = 400


class ProgramState(Enum):
    """The expected result of the program's start."""

    FOUND = "found"
    MISSING = "missing"
    NOT_EXECUTABLE = "not executable"
    NO_INTERPRETER = "no interpreter"


@dataclass(frozen=True, slots=True)
class ProgramFinding:
    """The result of a look-up of a program.

    Attributes:
        interpreter: the missing interpreter, as the program's first line names it.
        instead: an existing program that was probably meant.
    """

    state: ProgramState = ProgramState.FOUND
    interpreter: str | None = None
    instead: str | None = None

    @property
    def found(self) -> bool:
        return self.state is ProgramState.FOUND


FOUND = ProgramFinding()


def search_path(env: Mapping[str, str]) -> str:
    """The search path of a job with this environment, without the directory of Corral's own programs."""
    return env.get("PATH") or os.defpath


def look_up(program: str, path: str, workdir: str) -> ProgramFinding:
    """Find the program in the directories of `path`, or by its own path if it has a slash, seen from `workdir`."""
    finding = _look_up(program, path, workdir)
    other = _INSTEAD.get(finding.interpreter or program)
    if finding.found or other is None or not _look_up(other, path, workdir).found:
        return finding
    return ProgramFinding(finding.state, finding.interpreter, other)


def as_interpreter(finding: ProgramFinding, interpreter: str) -> ProgramFinding:
    """The finding about a script's interpreter, turned into a finding about the script."""
    return finding if finding.found else ProgramFinding(ProgramState.NO_INTERPRETER, interpreter, finding.instead)


def trouble(finding: ProgramFinding, program: str, path: str, workdir: str, where: str = "") -> str:
    """Why the program cannot be started; `where` names the nodes, as " on gpu-01"."""
    name = _shown(program)
    if finding.state is ProgramState.NOT_EXECUTABLE:
        return f"cannot run {name}{where}: it is not an executable file (chmod +x)"
    instead = f"; there is {finding.instead}" if finding.instead in _INSTEAD.values() else ""
    if finding.state is ProgramState.NO_INTERPRETER:
        lacks = _shown(finding.interpreter or "")
        return f"cannot run {name}{where}: its first line names an interpreter that does not exist, {lacks}{instead}"
    if "/" in program:
        return f"no such file{where}: {name}, seen from {_shown(workdir)}"
    return f"command not found{where}: {name}; looked in PATH={_shown(path)}{instead}"


def _look_up(program: str, path: str, workdir: str) -> ProgramFinding:
    if "/" in program:
        return _judged(os.path.join(workdir, program), path, workdir)
    first = ProgramFinding(ProgramState.MISSING)
    for directory in path.split(os.pathsep):
        finding = _judged(os.path.join(workdir, directory, program), path, workdir)
        if finding.found:
            return finding
        if first.state is ProgramState.MISSING:
            first = finding
    return first


def _judged(file: str, path: str, workdir: str) -> ProgramFinding:
    try:
        os.stat(file)
    except PermissionError:
        return ProgramFinding(ProgramState.NOT_EXECUTABLE)
    except (OSError, ValueError):
        return ProgramFinding(ProgramState.MISSING)
    if not _is_executable(file):
        return ProgramFinding(ProgramState.NOT_EXECUTABLE)
    named, argument = _first_line(file)
    if named is None:
        return ProgramFinding()
    if not _is_executable(os.path.join(workdir, named)):
        return ProgramFinding(ProgramState.NO_INTERPRETER, named)
    # Only the plain form of `env` is checked; flags and variables before the name change its meaning.
    plain = os.path.basename(named) == "env" and argument and not argument.startswith("-") and "=" not in argument
    if not plain or "/" in argument or any(map(_is_executable, _on_path(argument, path, workdir))):
        return ProgramFinding()
    return ProgramFinding(ProgramState.NO_INTERPRETER, argument)


def _on_path(name: str, path: str, workdir: str) -> list[str]:
    return [os.path.join(workdir, directory, name) for directory in path.split(os.pathsep)]


def _is_executable(file: str) -> bool:
    try:
        return os.path.isfile(file) and os.access(file, os.X_OK)
    except ValueError:
        return False


def _first_line(file: str) -> tuple[str | None, str]:
    """The interpreter that a script names, and its argument; (None, "") if the file is not a script."""
    try:
        line, ended, _ = read_start(Path(file), _FIRST_LINE_BYTES).partition(b"\n")
    except OSError:
        # A user who may execute a file may not always read it.
        return None, ""
    words = os.fsdecode(line[2:].strip(b" \t")).replace("\t", " ").split(" ", 1)
    if not line.startswith(b"#!") or not words[0] or not (ended or len(line) < _FIRST_LINE_BYTES):
        return None, ""
    return words[0], words[1].strip(" ") if len(words) > 1 else ""


def _shown(text: str) -> str:
    if len(text) <= _SHOWN_CHARACTERS:
        return printable(text)
    return f"{printable(text[:_SHOWN_CHARACTERS])}... ({len(text)} characters)"
