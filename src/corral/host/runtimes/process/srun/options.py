"""The command line of srun: options that are understood, passed over with their reason, or refused."""

import re
from typing import NamedTuple

_VALUE = {
    "-n": "ntasks", "--ntasks": "ntasks",
    "-N": "nodes", "--nodes": "nodes",
    "-w": "nodelist", "--nodelist": "nodelist",
    "--ntasks-per-node": "ntasks_per_node",
    "--gpus-per-task": "gpus_per_task",
    "-o": "output", "--output": "output",
    "-e": "error", "--error": "error",
    "-D": "chdir", "--chdir": "chdir",
    "--export": "export",
}  # fmt: skip
_BARE = {
    "-l": "label", "--label": "label",
    "-u": "unbuffered", "--unbuffered": "unbuffered",
    "-K": "kill_on_bad_exit",
}  # fmt: skip
_OPTIONAL = {"--kill-on-bad-exit": "kill_on_bad_exit"}
"""Options whose value, 0 or 1, may be left out."""

_ITS_OWN = "a member's cores, memory and GPUs are for all of its tasks"
_AS_THEY_COME = "tasks start at once and where they are"
_PASSED_OVER_VALUE = {
    "-c": _ITS_OWN, "--cpus-per-task": _ITS_OWN, "--cpu-bind": _ITS_OWN, "--mem": _ITS_OWN, "--mem-per-cpu": _ITS_OWN,
    "--mem-per-gpu": _ITS_OWN, "--mem-bind": _ITS_OWN, "--gpu-bind": _ITS_OWN, "--gpus": _ITS_OWN, "-G": _ITS_OWN,
    "--gpus-per-node": _ITS_OWN, "--gres": _ITS_OWN, "--hint": _ITS_OWN, "--threads-per-core": _ITS_OWN,
    "-m": _AS_THEY_COME, "--distribution": _AS_THEY_COME, "-t": "the job's time limit holds",
    "--time": "the job's time limit holds", "-J": "a step has no name", "--job-name": "a step has no name",
    "-W": "srun waits for all tasks", "--wait": "srun waits for all tasks",
}  # fmt: skip
_PASSED_OVER_BARE = {
    "--overlap": _AS_THEY_COME, "--exact": _ITS_OWN, "--exclusive": _AS_THEY_COME, "-O": _AS_THEY_COME,
    "--overcommit": _AS_THEY_COME, "-Q": "srun says little", "--quiet": "srun says little",
}  # fmt: skip

_COUNT = re.compile(r"[1-9][0-9]{0,5}")
_FLAG = re.compile(r"[01]")
_COUNTS = frozenset({"ntasks", "nodes", "ntasks_per_node", "gpus_per_task"})


class BadUsage(Exception):
    """The command line is invalid or impossible. The message has possible values."""


class Options(NamedTuple):
    """The options of srun; None is an option that was not given. `passed_over` are options without effect, with
    reasons.
    """

    command: list[str]
    ntasks: int | None = None
    nodes: int | None = None
    ntasks_per_node: int | None = None
    gpus_per_task: int | None = None
    nodelist: list[str] | None = None
    output: str | None = None
    error: str | None = None
    chdir: str | None = None
    export: str | None = None
    label: bool = False
    unbuffered: bool = False
    kill_on_bad_exit: bool = False
    passed_over: tuple[str, ...] = ()


def parse(words: list[str]) -> Options:
    """Return the options before the first other word, and the command after them. Raises BadUsage."""
    given: dict[str, object] = {}
    passed_over: list[str] = []
    left = list(words)
    while left and left[0].startswith("-") and left[0] != "-":
        word = left.pop(0)
        if word == "--":
            break
        option, value, rest = _split(word)
        if option in _BARE and value is None:
            given[_BARE[option]] = True
            left[:0] = rest
        elif option in _OPTIONAL:
            given[_OPTIONAL[option]] = _checked(_FLAG, value or "1", option) == "1"
        elif option in _VALUE:
            given[_VALUE[option]] = _read(_VALUE[option], _value(option, value, left), option)
        elif option in _PASSED_OVER_VALUE:
            passed_over.append(f"{option} {_value(option, value, left)} ({_PASSED_OVER_VALUE[option]})")
        elif option in _PASSED_OVER_BARE:
            passed_over.append(f"{option} ({_PASSED_OVER_BARE[option]})")
            left[:0] = rest
        elif option != "--mpi" or _value(option, value, left) != "none":
            raise BadUsage(_unknown(option))
    if not left or not left[0]:
        raise BadUsage("there is no command to run; write it after the options: srun -l hostname")
    return Options(left, passed_over=tuple(passed_over), **given)  # type: ignore[arg-type]


def _split(word: str) -> tuple[str, str | None, list[str]]:
    """Split a word into option, attached value, and the rest of several letters as a word: -lu is -l -u."""
    if word.startswith("--"):
        option, equals, value = word.partition("=")
        return option, value if equals else None, []
    option, rest = word[:2], word[2:]
    if option in _BARE or option in _PASSED_OVER_BARE:
        return option, None, [f"-{rest}"] if rest else []
    return option, rest.removeprefix("=") if rest else None, []


def _value(option: str, value: str | None, left: list[str]) -> str:
    if value is None and left:
        value = left.pop(0)
    if not value:
        raise BadUsage(f"{option} needs a value")
    return value


def _read(name: str, value: str, option: str) -> object:
    if name == "nodes":
        value = value.partition("-")[0]
    if name in _COUNTS:
        return int(_checked(_COUNT, value.rpartition(":")[2] if name == "gpus_per_task" else value, option))
    return value.split(",") if name == "nodelist" else value


def _checked(pattern: re.Pattern[str], value: str, option: str) -> str:
    if pattern.fullmatch(value) is None:
        raise BadUsage(f"{option}: {value!r:.60} is no number that it takes")
    return value


def _unknown(option: str) -> str:
    if option == "--mpi":
        return "--mpi: Corral's srun starts no MPI programs; call mpirun, which finds the hosts in CORRAL_NODES"
    if option == "--pty":
        return "--pty: a job has no terminal; use corral reserve for interactive work"
    known = ", ".join(sorted({*_VALUE, *_BARE, *_OPTIONAL}))
    return f"{option} is no option of Corral's srun, which has {known}"
