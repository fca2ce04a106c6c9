"""Similar elements of an array, as one row of a table."""

from __future__ import annotations

from corral.core.model.jobs.array_indices import in_short
from corral.formatting.job_words import devices_of, gpus_asked, job_place, job_time, run_or_wait_s, shares_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from corral.client import JobRow
    from corral.formatting.job_words import Places

    Text = Callable[[JobRow, Places, float], str]
    Group = Sequence[JobRow]

VARIOUS = "various"
"""The text of a cell in which the elements differ."""


def grouped(rows: Iterable[JobRow]) -> list[Group]:
    """Rows in their order. Similar elements of an array are joined at the place of the first, by their indices."""
    groups: dict[object, list[JobRow]] = {}
    for row in rows:
        groups.setdefault(row.id if row.array_id is None else _likeness(row), []).append(row)
    return [group if len(group) == 1 else sorted(group, key=_index) for group in groups.values()]


def ids_of(group: Group) -> str:
    """The id of a job, or those of elements: "17_[3-49]"."""
    return group[0].id if len(group) == 1 else in_short(str(group[0].array_id), map(_index, group))


def cell_of(text: Text, group: Group, places: Places, now: float) -> str:
    """The text of a column for all of a group; `VARIOUS` if the texts differ."""
    texts = {text(row, places, now) for row in group}
    return texts.pop() if len(texts) == 1 else VARIOUS


def gpus_of(group: Group) -> str:
    """The number of elements, and the GPUs of each: "47x1"."""
    each = cell_of(lambda row, places, now: gpus_asked(row), group, {}, 0.0)
    return each if len(group) == 1 or each in ("-", "0", VARIOUS) else f"{len(group)}x{each}"


def time_of(group: Group, now: float) -> str:
    """The time of the element that ran or has waited the longest."""
    return job_time(max(group, key=lambda row: run_or_wait_s(row, now) or 0.0), now)


def place_of(group: Group, places: Places) -> str:
    """Where the elements run or ran, how they ended, or why the first of them waits."""
    return job_place(group[0] if group[0].phase == "PENDING" else _as_one(group), places)


def nodes_of(group: Group) -> str:
    """The nodes of the elements, now or before."""
    return ",".join(_as_one(group).nodes) or "-"


def indices_of_devices(group: Group, places: Places) -> str:
    """The devices of the elements, now or before."""
    return devices_of(_as_one(group), places) or "-"


def _likeness(row: JobRow) -> object:
    how = None if row.phase == "PENDING" else (row.reason, row.exit_code, row.signal)
    return row.array_id, row.phase, row.held, how


def _index(row: JobRow) -> int:
    return row.array_index or 0


def _as_one(group: Any) -> Any:
    """A row with the devices and nodes of all. Shares are those of the first row."""
    first = group[0]
    grants = first.grants if shares_of(first) else [grant for row in group for grant in row.grants]
    devices = list(dict.fromkeys(uuid for row in group for uuid in row.devices))
    nodes = list(dict.fromkeys(node for row in group for node in row.nodes))
    return type(first)(**{**vars(first), "devices": devices, "nodes": nodes, "grants": grants})
