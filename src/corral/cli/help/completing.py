"""Values for a shell's completion, from the server: job ids, queues, nodes, GPUs, users and others.

An option is looked up by its command and name, else by its name alone. An option without an entry is completed by its
type.
"""

from __future__ import annotations

import os
import pwd
import re
import signal
from contextlib import contextmanager

from corral.cli.direct.rows import rows_of
from corral.client.connecting.address import find_address
from corral.client.connecting.transport import Transport
from corral.core.model.jobs.phase import Phase
from corral.formatting.device_names import device_called, several_nodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType
    from typing import Any

    from corral.cli.declaring import DeclaredOption

    Values = Iterable[tuple[str, str]]

ANSWER_S = 0.5
"""The longest wait for the server's answer: users do not wait longer for a completion."""

_MOST_ROWS = 200
FILES, DIRECTORIES, COMMANDS = "!files", "!dirs", "!commands"
"""Kinds of values that the shell itself completes."""

_ELEMENT = re.compile(r"\d_\d+$")
"""The id of one job of an array. There may be thousands, so they are offered only after an underscore was typed."""

_LIVE = ",".join(phase for phase in Phase if not phase.terminal)


def values_of(command: str, option: DeclaredOption, incomplete: str, *, begins: bool) -> Values | str:
    """The possible values of an option or an argument. `begins`: the argument may begin a command line.

    Empty if the server does not answer in time.
    """
    if not option.names and option.name in _COMMAND_LINES:
        return COMMANDS if begins and "/" not in incomplete else FILES
    source = _SOURCES.get((command, option.name)) or _SOURCES.get(("", option.name))
    if source is None:
        return _by_type(option)
    if isinstance(source, str):
        return source
    try:
        with _limited(ANSWER_S):
            values = list(source(Transport(find_address())))
            if option.name in _JOBS and "_" not in incomplete:
                values = [one for one in values if not _ELEMENT.search(one[0])]
            return _listed(values, incomplete) if option.name in _LISTS else values
    except Exception:
        return []


def _jobs(phases: str | None, *, chosen: Callable[[Any], bool] | None = None) -> Callable[[Transport], Values]:
    """The newest jobs in these phases (None: all). Only this user's jobs, unless the user may change everybody's."""

    def values(server: Transport) -> Values:
        root = os.geteuid() == 0 or server.address.url is not None
        user = None if root else pwd.getpwuid(os.geteuid()).pw_name
        rows = server.get("/jobs", all=phases is None, phase=phases, user=user, limit=_MOST_ROWS)["jobs"]
        found = [row for row in rows if chosen is None or chosen(row)]
        named = {name: about for row in found for name, about in _names(row)}
        return list(named.items())

    return values


def _names(row: dict[str, Any]) -> Values:
    """The id of a job, and before it the id of its array."""
    if row["array_id"] is not None:
        yield row["array_id"], f"array {row['name']}"
    yield row["id"], _about(row)


def _about(row: dict[str, Any]) -> str:
    return f"{row['phase'].lower()} {row['name']}" + (f" of {row['user']}" if os.geteuid() == 0 else "")


def _dependencies(server: Transport) -> Values:
    live = list(_jobs(_LIVE)(server))
    yield from live
    for word in ("any:", "notok:", "start:"):
        yield from ((word + job_id, about) for job_id, about in live)
    yield "singleton", "your other jobs of this name have ended"


def _seen(field: str) -> Callable[[Transport], Values]:
    """The values of this field in recent jobs."""

    def values(server: Transport) -> Values:
        rows = server.get("/jobs", all=True, limit=_MOST_ROWS)["jobs"]
        return [(name, "") for name in sorted({row[field] for row in rows} - {""})]

    return values


def _queues(server: Transport) -> Values:
    rows = server.get("/queues", project="default")["queues"]
    return [(row["name"], "") for row in rows if row["kind"] == "queue"]


def _nodes(server: Transport) -> Values:
    return [(node["name"], node["state"]) for node in server.get("/nodes")["nodes"]]


def _all_devices(server: Transport) -> list[Any]:
    return rows_of("DeviceRow", server.get("/devices")["devices"])


def _devices(server: Transport) -> Values:
    rows = [row for row in _all_devices(server) if row.index is not None and not row.parent]
    several = several_nodes(rows)
    return [(device_called(row, several), f"{row.name}, {row.state}") for row in rows]


def _targets(server: Transport) -> Values:
    return [*_devices(server), *_nodes(server)]


def _models(server: Transport) -> Values:
    """The words that identify models, such as A100: words with a digit, without size or form factor."""
    words = {part.partition("-")[0]: row.name for row in _all_devices(server) for part in row.name.split()}
    return sorted((word, model) for word, model in words.items() if any(letter.isdigit() for letter in word))


def _profiles(server: Transport) -> Values:
    return [(name, "") for name in sorted({row.mig_profile for row in _all_devices(server) if row.mig_profile})]


def _labels(server: Transport) -> Values:
    labels = {f"{key}={value}" for node in server.get("/nodes")["nodes"] for key, value in node["labels"].items()}
    return [(label, "") for label in sorted(labels)]


def _tokens(server: Transport) -> Values:
    return [
        (token["id"], f"{token['scope']} of {token['user']}") for token in server.get("/tokens", all=False)["tokens"]
    ]


def _fixed(*names: str) -> Callable[[Transport], Values]:
    return lambda server: [(name, "") for name in names]


def _columns(server: Transport) -> Values:
    from corral.cli.tables.job_rows import COLUMNS

    return [(name, column.title) for name, column in COLUMNS.items()]


def _sort_keys(server: Transport) -> Values:
    from corral.core.model.jobs.job_sort import SORT_KEYS

    return [(key, "") for key in SORT_KEYS]


_INSIDE = _jobs("RUNNING", chosen=lambda row: row["kind"] == "run")

_SOURCES: dict[tuple[str, str], Callable[[Transport], Values] | str] = {
    ("cancel", "ids"): _jobs(_LIVE),
    ("wait", "ids"): _jobs(_LIVE),
    ("hold", "ids"): _jobs("PENDING", chosen=lambda row: not row["held"]),
    ("release", "ids"): _jobs("PENDING,RUNNING", chosen=lambda row: row["held"] or row["kind"] == "reserve"),
    ("requeue", "ids"): _jobs("STARTING,RUNNING,FAILED,LOST", chosen=lambda row: row["kind"] == "run"),
    ("update", "ids"): _jobs("PENDING,STARTING,RUNNING"),
    ("exec", "job_id"): _INSIDE,
    ("forward", "job_id"): _INSIDE,
    ("ssh", "job_id"): _INSIDE,
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
    ("", "share"): _fixed("exclusive", "mps", "mig", "timeslice", "hook"),
    ("", "split"): _fixed("evenly", "fill"),
    ("", "open_mode"): _fixed("append", "truncate"),
    ("", "by"): _fixed("user", "project", "queue", "month"),
    ("", "output"): FILES,
    ("", "input"): FILES,
    ("", "error"): FILES,
    ("", "workdir"): DIRECTORIES,
    ("", "pod_template"): FILES,
}
_LISTS = frozenset({"gpu_model", "state", "by", "columns"})
"""Parameters that take several values, separated by commas."""

_JOBS = frozenset({"ids", "job_id", "after"})

_COMMAND_LINES = frozenset({"words", "command"})
"""Parameters for a command with its arguments, or for the script of `submit`."""


def _by_type(option: DeclaredOption) -> Values | str:
    return FILES if option.kind == "path" else [(word, "") for word in option.choices]


def _listed(values: Values, incomplete: str) -> Values:
    """The values for the last place of a comma-separated list, each with the text before it."""
    before = incomplete[: incomplete.rfind(",") + 1]
    return [(before + value, about) for value, about in values if value not in before.split(",")]


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise TimeoutError inside the context after this time, in any call."""

    def out_of_time(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, out_of_time)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
