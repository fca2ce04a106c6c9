"""The translation of each independent option of sbatch(1) into Corral's flags."""

import re
from collections.abc import Callable

from corral.cli.site.site import Site
from corral.core.model.devices.host_list import expand_hosts
from corral.core.model.errors import Refused
from corral.core.model.units import is_whole, parse_slurm_time_s

_BARE_NICE = "100"
_CONDITION = re.compile(r"(after(?:any|ok|notok|corr)?)((?::\d+(?:_(?:\d+|\*))?)+)")
_SIGNAL = re.compile(r"(?:([BR]+):)?(\w+)(?:@([1-9]\d*))?")
_SETTING = re.compile(r"""(?:[^,'"]|'[^']*'|"[^"]*")+""")
_MAIL_TYPES = {
    "started": {"ALL", "BEGIN"},
    "done": {"ALL", "END"},
    "failed": {"ALL", "END", "FAIL", "INVALID_DEPEND", "TIME_LIMIT"},
}
_SIGNALS = {"1": "HUP", "2": "INT", "10": "USR1", "12": "USR2", "15": "TERM"}
_CONDITIONS = {"after": "start:", "afterany": "any:", "afterok": "", "afternotok": "notok:", "aftercorr": "corr:"}

Meaning = Callable[[str | None, str, Site], list[str] | None]
"""The flags for a value at a place (file, line and option). None if it has no meaning at this site."""


def _passing(flag: str) -> Meaning:
    return lambda value, where, site: [flag, _required(value, where)]


def _required(value: str | None, where: str) -> str:
    if not value:
        raise Refused(f"{where} needs a value")
    return value


def _time(value: str | None, where: str, site: Site) -> list[str]:
    text = _required(value, where)
    if text.lower() in ("0", "-1", "infinite", "unlimited"):
        return []
    return ["--time", f"{parse_slurm_time_s(text, field=where):.0f}s"]


def _dependency(value: str | None, where: str, site: Site) -> list[str]:
    """Dependencies: commas mean all of them, question marks any of them."""
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


def _nice(value: str | None, where: str, site: Site) -> list[str]:
    nice = value or _BARE_NICE
    if not is_whole(nice.removeprefix("-")):
        raise Refused(f"{where}: {nice!r:.60} is not a whole number")
    return ["--nice", nice]


def _signal(value: str | None, where: str, site: Site) -> list[str]:
    """A checkpoint signal. With B: only for the batch shell, without B: only for the others. R: has no meaning here."""
    found = _SIGNAL.fullmatch(_required(value, where))
    name = None if found is None else _SIGNALS.get(found[2].upper().removeprefix("SIG"), found[2])
    if found is None or name is None or name.upper().removeprefix("SIG") not in _SIGNALS.values():
        raise Refused(
            f"{where}: {value!r} is not supported; write one of {', '.join(_SIGNALS.values())}, such as USR1@60"
        )
    target = "B" if "B" in (found[1] or "") else "S"
    return ["--checkpoint-signal", f"{target}:{name.upper().removeprefix('SIG')}@{found[3] or 60}s"]


def _mail_type(value: str | None, where: str, site: Site) -> list[str] | None:
    """Notifications through the user's channel, for the supported events. None if no requested event is supported."""
    wanted = {word.strip().upper() for word in _required(value, where).split(",")}
    if wanted == {"NONE"}:
        return []
    told = [word for word, types in _MAIL_TYPES.items() if types & wanted]
    return ["--notify-on", ",".join(told)] if told else None


def _open_mode(value: str | None, where: str, site: Site) -> list[str]:
    for mode in ("append", "truncate"):
        if value and mode.startswith(value.lower()):
            return ["--open-mode", mode]
    raise Refused(f"{where}: {value!r} is not an open mode; write append or truncate")


def _export(value: str | None, where: str, site: Site) -> list[str]:
    """The variables that are set. The job gets all other variables anyway, including those that are only named."""
    settings = [one.partition("=") for one in _SETTING.findall(_required(value, where))]
    return [word for name, equals, text in settings if equals for word in ("--env", f"{name}={_unquoted(text)}")]


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _partition(value: str | None, where: str, site: Site) -> list[str] | None:
    """The first of the partitions that is a queue here."""
    queues = [name for name in _required(value, where).split(",") if name in site.queues]
    return ["--queue", queues[0]] if queues else None


def _nodes(flag: str) -> Meaning:
    def meaning(value: str | None, where: str, site: Site) -> list[str]:
        hosts = _required(value, where)
        if "/" in hosts:
            raise Refused(f"{where}: {hosts!r:.60} is a file; write the nodes themselves, such as gpu-[01-03,07]")
        expand_hosts(hosts, field=where)
        return [flag, hosts]

    return meaning


def export_note(value: str) -> str | None:
    """The difference from Slurm if a script names the variables that it wants."""
    if value.partition(",")[0].upper() == "ALL":
        return None
    return "unlike in Slurm the job keeps the rest of your environment; unset unwanted variables in the script"


def nodelist_note(value: str) -> str | None:
    """The difference from Slurm if a script names several nodes."""
    if len(expand_hosts(value)) == 1:
        return None
    return "the job runs on as many of these nodes as it needs; Slurm would give it all of them"


MEANINGS: dict[str, Meaning] = {
    "array": _passing("--array"),
    "begin": _passing("--begin"),
    "chdir": _passing("--workdir"),
    "dependency": _dependency,
    "error": _passing("--error"),
    "exclude": _nodes("--exclude"),
    "export": _export,
    "hold": lambda value, where, site: ["--hold"],
    "input": _passing("--input"),
    "job-name": _passing("--name"),
    "mail-type": _mail_type,
    "nice": _nice,
    "no-requeue": lambda value, where, site: ["--retries", "0"],
    "nodelist": _nodes("--node"),
    "open-mode": _open_mode,
    "output": _passing("--output"),
    "partition": _partition,
    "requeue": lambda value, where, site: [],
    "signal": _signal,
    "test-only": lambda value, where, site: [],
    "time": _time,
}

NOTES: dict[str, Callable[[str], str | None]] = {"export": export_note, "nodelist": nodelist_note}
"""Notes on values that mean something else in Slurm. A function returns None if there is no difference."""
