"""Translates options of sbatch(1) into Corral's flags. Others are ignored and listed, or refused with their line."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from corral.cli.sbatch_resources import Said, resource_flags
from corral.model.errors import Refused, nearest
from corral.model.units import is_whole, parse_slurm_time_s

_BARE_NICE = "100"
_CONDITION = re.compile(r"(after(?:any|ok|notok|corr)?)((?::\d+(?:_(?:\d+|\*))?)+)")
_SIGNAL = re.compile(r"(?:([BR]+):)?(\w+)(?:@([1-9]\d*))?")
_MAIL_TYPES = {
    "started": {"ALL", "BEGIN"},
    "done": {"ALL", "END"},
    "failed": {"ALL", "END", "FAIL", "INVALID_DEPEND", "TIME_LIMIT"},
}
_SIGNALS = {"1": "HUP", "2": "INT", "10": "USR1", "12": "USR2", "15": "TERM"}
_CONDITIONS = {"after": "start:", "afterany": "any:", "afterok": "", "afternotok": "notok:", "aftercorr": "corr:"}


@dataclass(frozen=True)
class Translated:
    """Options of sbatch in Corral's terms.

    Attributes:
        flags: Corral's flags, each with its file and line for error messages.
        ignored: options that have no meaning here, as "--partition=gpu (line 3)".
        tasks: how many tasks the job has, on all of its nodes.
    """

    flags: tuple[tuple[list[str], str], ...]
    ignored: tuple[str, ...]
    tasks: int


def read_options(words: Sequence[str], file: str, line: int) -> dict[str, Said]:
    """The options of one #SBATCH line by their long names. Raises Refused for options that sbatch does not have."""
    said = {}
    for option, value in _options(words):
        name = _SHORT.get(option, option.removeprefix("--"))
        where = f"{file}, line {line}: {option}"
        if name not in _KNOWN or not (option.startswith("-") or option == "hetjob"):
            raise Refused(f"{where} is not an option of sbatch; {nearest(f'--{name}', [f'--{one}' for one in _KNOWN])}")
        said[name] = Said(value, option, where, line)
    return said


def translate(said: Mapping[str, Said]) -> Translated:
    """Corral's flags for these options. Raises Refused for options that contradict or cannot be honoured here."""
    flags: list[tuple[list[str], str]] = []
    ignored = []
    for name, one in said.items():
        if name in _REFUSED:
            raise Refused(f"{one.where} is not supported here; {_REFUSED[name]}")
        ours = _MEANINGS[name](one.value, one.where) if name in _MEANINGS else None
        if ours:
            flags.append((ours, one.where))
        elif ours is None and name not in RESOURCES:
            ignored.append(f"{one.text} (line {one.line})")
    resources, tasks = resource_flags(said)
    return Translated((*flags, *resources), tuple(ignored), tasks)


def _options(words: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Options with their values: --name=value, --name value, -Nvalue, -N value."""
    left = list(words)
    while left:
        word = left.pop(0)
        if word.startswith("--") or not word.startswith("-"):
            option, equals, given = word.partition("=")
        else:
            option, equals, given = word[:2], word[2:], word[2:].removeprefix("=")
        value: str | None = given if equals else None
        takes_one = _SHORT.get(option, option.removeprefix("--")) not in _BARE
        if value is None and takes_one and left and not left[0].startswith("-") and option.startswith("-"):
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
    if text.lower() in ("0", "-1", "infinite", "unlimited"):
        return []
    return ["--time", f"{parse_slurm_time_s(text, field=where):.0f}s"]


def _dependency(value: str | None, where: str) -> list[str]:
    """Dependencies, all with commas between them or any with question marks."""
    text = _required(value, where)
    if "," in text and "?" in text:
        raise Refused(
            f"{where}: {text!r} mixes commas (all of them) and question marks (any of them); use only one of the two"
        )
    terms = [term for condition in re.split("[,?]", text) for term in _terms(condition, where)]
    if "?" in text:
        return ["--after", "?".join(terms)]
    return [word for term in terms for word in ("--after", term)]


def _terms(condition: str, where: str) -> list[str]:
    found = _CONDITION.fullmatch(condition)
    if condition == "singleton":
        return [condition]
    if found is None:
        raise Refused(
            f"{where}: {condition!r} is not a supported dependency; write afterok:ID, afterany:ID, afternotok:ID, "
            "aftercorr:ID, after:ID or singleton"
        )
    ids = [job_id.removesuffix("_*") for job_id in found[2].split(":")[1:]]
    return [f"{_CONDITIONS[found[1]]}{job_id}" for job_id in ids]


def _nice(value: str | None, where: str) -> list[str]:
    nice = value or _BARE_NICE
    if not is_whole(nice.removeprefix("-")):
        raise Refused(f"{where}: {nice!r:.60} is not a whole number")
    return ["--nice", nice]


def _signal(value: str | None, where: str) -> list[str]:
    """With B: it is for the batch shell alone, and without for all but that. R: has no meaning here."""
    found = _SIGNAL.fullmatch(_required(value, where))
    name = None if found is None else _SIGNALS.get(found[2].upper().removeprefix("SIG"), found[2])
    if found is None or name is None or name.upper().removeprefix("SIG") not in _SIGNALS.values():
        raise Refused(
            f"{where}: {value!r} is not supported; write one of {', '.join(_SIGNALS.values())}, such as USR1@60"
        )
    target = "B" if "B" in (found[1] or "") else "S"
    return ["--checkpoint-signal", f"{target}:{name.upper().removeprefix('SIG')}@{found[3] or 60}s"]


def _mail_type(value: str | None, where: str) -> list[str] | None:
    """Told through the user's channel, of what there is here; None where nothing of it has a meaning."""
    wanted = {word.strip().upper() for word in _required(value, where).split(",")}
    if wanted == {"NONE"}:
        return []
    told = [word for word, types in _MAIL_TYPES.items() if types & wanted]
    return ["--notify-on", ",".join(told)] if told else None


def _open_mode(value: str | None, where: str) -> list[str]:
    for mode in ("append", "truncate"):
        if value and mode.startswith(value.lower()):
            return ["--open-mode", mode]
    raise Refused(f"{where}: {value!r} is not an open mode; write append or truncate")


def _export(value: str | None, where: str) -> list[str] | None:
    """A job always gets the whole environment (ALL), plus variables that are set; other values have no meaning here."""
    first, *rest = _required(value, where).split(",")
    if first.upper() != "ALL" or not all("=" in one for one in rest):
        return None
    return [word for one in rest for word in ("--env", one)]


_Meaning = Callable[[str | None, str], list[str] | None]

_SHORT = {
    "-A": "account", "-a": "array", "-b": "begin", "-B": "extra-node-info", "-C": "constraint", "-c": "cpus-per-task",
    "-D": "chdir", "-d": "dependency", "-e": "error", "-F": "nodefile", "-G": "gpus", "-H": "hold", "-i": "input",
    "-J": "job-name", "-k": "no-kill", "-L": "licenses", "-M": "clusters", "-m": "distribution", "-N": "nodes",
    "-n": "ntasks", "-O": "overcommit", "-o": "output", "-p": "partition", "-Q": "quiet", "-q": "qos",
    "-S": "core-spec", "-s": "oversubscribe", "-t": "time", "-v": "verbose", "-W": "wait", "-w": "nodelist",
    "-x": "exclude",
}  # fmt: skip

_BARE = frozenset(
    {"contiguous", "hold", "ignore-pbs", "no-requeue", "overcommit", "parsable", "quiet", "reboot", "requeue",
     "spread-job", "test-only", "use-min-nodes", "verbose", "wait"}
)  # fmt: skip
"""Options that take no value."""

_MEANINGS: dict[str, _Meaning] = {
    "array": _passing("--array"),
    "begin": _passing("--begin"),
    "chdir": _passing("--workdir"),
    "dependency": _dependency,
    "error": _passing("--error"),
    "export": _export,
    "hold": lambda value, where: ["--hold"],
    "job-name": _passing("--name"),
    "mail-type": _mail_type,
    "nice": _nice,
    "no-requeue": lambda value, where: ["--retries", "0"],
    "open-mode": _open_mode,
    "output": _passing("--output"),
    "requeue": lambda value, where: [],
    "signal": _signal,
    "time": _time,
}
"""Corral's flags for an option that is read alone; None for a value that has no meaning here."""

RESOURCES = frozenset(
    {"constraint", "cpus-per-gpu", "cpus-per-task", "exclusive", "gpus", "gpus-per-node", "gpus-per-task", "gres",
     "mem", "mem-per-cpu", "mem-per-gpu", "mincpus", "nodes", "ntasks", "ntasks-per-node"}
)  # fmt: skip
"""Options that are read together: how much a job needs, and where."""

_REFUSED = {
    "bb": "there are no burst buffers; remove it",
    "bbf": "there are no burst buffers; remove it",
    "deadline": "use --time, and --begin for a later start",
    "hetjob": "submit each part as a job of its own",
    "gpus-per-socket": "use --gpus-per-node or --gpus-per-task",
    "licenses": "licenses are not counted; remove it",
    "ntasks-per-gpu": "use --ntasks, and --gpus for all tasks together",
    "tmp": "disk space is not counted; remove it",
    "tres-per-task": "use --gpus-per-task and --cpus-per-task",
    "wrap": "it replaces the script by a command; submit that instead: corral submit -- sh -c '...'",
}
"""Options that would give a job less than it asked for if they were ignored, and what to write instead."""

_IGNORED = frozenset(
    {"account", "acctg-freq", "batch", "cluster-constraint", "clusters", "comment", "container", "container-id",
     "contiguous", "core-spec", "cores-per-socket", "cpu-freq", "delay-boot", "distribution", "exclude",
     "export-file", "extra", "extra-node-info", "get-user-env", "gid", "gpu-bind", "gpu-freq", "gres-flags", "hint",
     "ignore-pbs", "input", "kill-on-invalid-dep", "mail-user", "mcs-label", "mem-bind", "network",
     "no-kill", "nodefile", "nodelist", "ntasks-per-core", "ntasks-per-socket", "overcommit",
     "oversubscribe", "parsable", "partition", "power", "prefer", "priority", "profile", "propagate", "qos", "quiet",
     "reboot", "reservation", "segment", "share", "sockets-per-node", "spread-job", "switches", "test-only",
     "thread-spec", "threads-per-core", "time-min", "uid", "use-min-nodes", "verbose", "wait", "wait-all-nodes",
     "wckey"}
)  # fmt: skip
"""Options that change neither what a job gets here nor how long it may run."""

_KNOWN = sorted({*_MEANINGS, *RESOURCES, *_REFUSED, *_IGNORED})
