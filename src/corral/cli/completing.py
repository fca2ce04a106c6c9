"""Values that a shell may complete: job ids, queues, nodes, GPUs, users and the like, as the server tells them.

A parameter is known by its command and name, else by its name alone. One without an entry is completed by its type.
"""

import os
import pwd
import re
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from corral.cli.completion import MOST_VALUES, Places
from corral.client import Client, JobRow
from corral.formatting.device_names import device_called, several_nodes
from corral.model.phase import Phase

ANSWER_S = 0.5
"""How long the server may take: nobody waits longer for a completion."""

Values = Iterable[tuple[str, str]]
"""Values, each with what it is."""

_ELEMENT = re.compile(r"\d_\d+$")
"""The id of one job of an array. There may be thousands: they are offered once an underscore was typed."""

_LIVE = ",".join(phase for phase in Phase if not phase.terminal)


def values_of(context: Any, param: Any, args: Sequence[str], incomplete: str) -> Values | Places:
    """What may stand for a parameter after `args`; none if the server does not say in time."""
    command = context.command_path.split()[1]
    if param.name in _COMMAND_LINES:
        begins = not context.params.get(param.name) and (command != "submit" or "--" in args)
        return Places.COMMANDS if begins and "/" not in incomplete else Places.FILES
    source = _SOURCES.get((command, param.name)) or _SOURCES.get(("", param.name))
    if source is None:
        return _by_type(context, param, incomplete)
    if isinstance(source, Places):
        return source
    try:
        with _limited(ANSWER_S), Client() as client:
            values = list(source(client))
            if param.name in _JOBS and "_" not in incomplete:
                values = [one for one in values if not _ELEMENT.search(one[0])]
            return _listed(values, incomplete) if param.name in _LISTS else values
    except Exception:
        return []


def _jobs(phases: str | None, *, chosen: Callable[[JobRow], bool] | None = None) -> Callable[[Client], Values]:
    """The newest jobs in these phases (None: all); of this user, unless it may act on everybody's."""

    def values(client: Client) -> Values:
        root = os.geteuid() == 0 or client.address.url is not None
        user = None if root else pwd.getpwuid(os.geteuid()).pw_name
        rows = client.jobs.list(all=phases is None, phase=phases, user=user, limit=MOST_VALUES)
        found = [row for row in rows if chosen is None or chosen(row)]
        named = {name: about for row in found for name, about in _names(row)}
        return list(named.items())

    return values


def _names(row: JobRow) -> Values:
    """The id of a job, and before it that of its array."""
    if row.array_id is not None:
        yield row.array_id, f"array {row.name}"
    yield row.id, _about(row)


def _about(row: JobRow) -> str:
    return f"{row.phase.lower()} {row.name}" + (f" of {row.user}" if os.geteuid() == 0 else "")


def _dependencies(client: Client) -> Values:
    live = list(_jobs(_LIVE)(client))
    yield from live
    for word in ("any:", "notok:", "start:"):
        yield from ((word + job_id, about) for job_id, about in live)
    yield "singleton", "your other jobs of this name have ended"


def _seen(field: str) -> Callable[[Client], Values]:
    """What recent jobs have in this field."""

    def values(client: Client) -> Values:
        rows = client.jobs.list(all=True, limit=MOST_VALUES)
        return [(name, "") for name in sorted({getattr(row, field) for row in rows} - {""})]

    return values


def _queues(client: Client) -> Values:
    return [(row.name, "") for row in client.queues() if row.kind == "queue"]


def _nodes(client: Client) -> Values:
    return [(node.name, node.state) for node in client.nodes.list()]


def _devices(client: Client) -> Values:
    rows = [row for row in client.devices.list() if row.index is not None and not row.parent]
    several = several_nodes(rows)
    return [(device_called(row, several), f"{row.name}, {row.state}") for row in rows]


def _targets(client: Client) -> Values:
    return [*_devices(client), *_nodes(client)]


def _models(client: Client) -> Values:
    """The words of models that name them, such as A100: those with a digit, without size or form."""
    words = {part.partition("-")[0]: row.name for row in client.devices.list() for part in row.name.split()}
    return sorted((word, model) for word, model in words.items() if any(letter.isdigit() for letter in word))


def _profiles(client: Client) -> Values:
    return [(name, "") for name in sorted({row.mig_profile for row in client.devices.list() if row.mig_profile})]


def _labels(client: Client) -> Values:
    return [
        (label, "") for label in sorted({f"{k}={v}" for node in client.nodes.list() for k, v in node.labels.items()})
    ]


def _tokens(client: Client) -> Values:
    return [(token.id, f"{token.scope} of {token.user}") for token in client.tokens.list()]


def _fixed(*names: str) -> Callable[[Client], Values]:
    return lambda client: [(name, "") for name in names]


def _columns(client: Client) -> Values:
    from corral.cli.job_rows import COLUMNS

    return [(name, column.title) for name, column in COLUMNS.items()]


def _sort_keys(client: Client) -> Values:
    from corral.model.job_sort import SORT_KEYS

    return [(key, "") for key in SORT_KEYS]


_SOURCES: dict[tuple[str, str], Callable[[Client], Values] | Places] = {
    ("cancel", "ids"): _jobs(_LIVE),
    ("wait", "ids"): _jobs(_LIVE),
    ("hold", "ids"): _jobs("PENDING", chosen=lambda row: not row.held),
    ("release", "ids"): _jobs("PENDING,RUNNING", chosen=lambda row: row.held or row.kind == "reserve"),
    ("requeue", "ids"): _jobs("STARTING,RUNNING,FAILED,LOST", chosen=lambda row: row.kind == "run"),
    ("update", "ids"): _jobs("PENDING,STARTING,RUNNING"),
    ("exec", "job_id"): _jobs("RUNNING", chosen=lambda row: row.kind == "run"),
    ("", "ids"): _jobs(None),
    ("", "token_id"): _tokens,
    ("ps", "columns"): _columns,
    ("ps", "sort"): _sort_keys,
    ("", "label"): _labels,
    ("", "prefer"): _labels,
    ("", "job_id"): _jobs(None),
    ("", "array"): _fixed(),
    ("", "after"): _dependencies,
    ("", "queue"): _queues,
    ("", "project"): _seen("project"),
    ("", "user"): _seen("user"),
    ("agent", "node"): _fixed(),
    ("", "node"): _nodes,
    ("", "exclude"): _nodes,
    ("", "device"): _devices,
    ("", "target"): _targets,
    ("", "gpu_model"): _models,
    ("", "mig"): _profiles,
    ("", "state"): _fixed(*(phase.lower() for phase in Phase)),
    ("", "share"): _fixed("exclusive", "mps", "mig", "timeslice"),
    ("", "split"): _fixed("evenly", "fill"),
    ("", "open_mode"): _fixed("append", "truncate"),
    ("", "by"): _fixed("user", "project", "queue", "month"),
    ("", "output"): Places.FILES,
    ("", "input"): Places.FILES,
    ("", "error"): Places.FILES,
    ("", "workdir"): Places.DIRECTORIES,
    ("", "pod_template"): Places.FILES,
}
_LISTS = frozenset({"gpu_model", "state", "by", "columns"})
"""Parameters that take several values, with commas."""

_JOBS = frozenset({"ids", "job_id", "after"})

_COMMAND_LINES = frozenset({"words", "command"})
"""Parameters that are a command with its arguments, or the script of `submit`."""


def _by_type(context: Any, param: Any, incomplete: str) -> Values | Places:
    if hasattr(param.type, "file_okay"):
        return Places.FILES if param.type.file_okay else Places.DIRECTORIES
    return [(item.value, item.help or "") for item in param.shell_complete(context, incomplete)]


def _listed(values: Values, incomplete: str) -> Values:
    """The values for the last place of a list with commas, each with what stands before it."""
    before = incomplete[: incomplete.rfind(",") + 1]
    return [(before + value, about) for value, about in values if value not in before.split(",")]


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raises TimeoutError inside it after this time, in whatever call."""

    def out_of_time(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, out_of_time)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
