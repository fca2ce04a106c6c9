"""Key figures over a stretch of time: of devices as they were measured, of jobs, and of the server's answers."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from corral.clock import Clock
from corral.core.control.metrics.request_counts import RequestCounts
from corral.core.model.devices.group_use import POOL, EndedJobSums, GroupUse, KpiBy, added_jobs
from corral.core.ports.ledger import Ledger
from corral.features.history.answers import KpiRow, Kpis
from corral.features.history.kpi_formulas import ResponseTime, key_figures
from corral.features.history.spans import span_of

DEFAULT_RANGE = "24h"
KEPT_S = 366 * 86_400
"""The time for which measurements are kept."""

MOST_ROWS = 1000

WAITING_ROUTES = frozenset(
    {"/api/v1/jobs/wait", "/api/v1/jobs/{job_id}/input", "/api/v1/jobs/{job_id}/logs", "/api/v1/events"}
)
"""Their requests wait on purpose: how soon they are answered says nothing of the server."""

NO_GPU = "none"
"""The node and means of jobs without a GPU."""

UNKNOWN = "unknown"
"""Stands for the means of sharing of a GPU that is gone."""


class DeviceSums(Protocol):
    """The measurements of devices. May raise BackendFailed."""

    def of_kind(self, kind: str, first: float, last: float) -> dict[str, GroupUse]:
        """Return the sums of the groups of a kind, by name."""
        ...


class KeyFigures:
    """Computes key figures from measurements and counts; the databases do most of the work. Call it on a thread."""

    def __init__(self, ledger: Ledger, devices: DeviceSums, requests: RequestCounts, clock: Clock) -> None:
        self._ledger = ledger
        self._devices = devices
        self._requests = requests
        self._clock = clock

    def kpis(
        self,
        by: KpiBy | None = None,
        *,
        range_name: str | None = None,
        start: int | None = None,
        end: int | None = None,
    ) -> Kpis:
        """The key figures of the last day, of a named range, or from `start` to `end` (Unix seconds), and by something.

        Raises Refused for an invalid span, BackendFailed and LedgerFailed if the figures cannot be read.
        """
        now = self._clock.shown(self._clock.now())
        span = span_of(range_name, start, end, default=DEFAULT_RANGE, now=now, kept_s=KEPT_S)
        first, last = (self._clock.taken(at) for at in span)
        # A span that reaches into the future is cut at now.
        length_s = max(1.0, min(last, self._clock.now()) - first)
        whole = key_figures(
            self._devices.of_kind(POOL, first, last).get("", GroupUse()),
            _all(self._ledger.ended_jobs(first, last).values()),
            response_time(self._requests),
            length_s,
            held=False,
        )
        rows, left_out = ((), 0) if by is None else self._rows(by, first, last, length_s)
        return Kpis(
            **whole, from_=span[0], to=span[1], by=None if by is None else by.value, rows=rows, left_out=left_out
        )

    def _rows(self, by: KpiBy, first: float, last: float, length_s: float) -> tuple[tuple[KpiRow, ...], int]:
        uses = self._devices.of_kind(by.value, first, last)
        jobs = _named(self._ledger.ended_jobs(first, last, by), self._namer(by))

        def size(name: str) -> tuple[float, int, str]:
            return -uses.get(name, GroupUse()).utilization_s, -jobs.get(name, EndedJobSums()).ended, name

        names = sorted({*uses, *jobs}, key=size)
        held = by not in (KpiBy.NODE, KpiBy.MEANS)
        rows = (
            KpiRow(
                name=name,
                **key_figures(uses.get(name, GroupUse()), jobs.get(name, EndedJobSums()), None, length_s, held=held),
            )
            for name in names[:MOST_ROWS]
        )
        return tuple(rows), max(0, len(names) - MOST_ROWS)

    def _namer(self, by: KpiBy) -> Callable[[str | None], str]:
        """The name of the group that a key of the ledger's belongs to."""
        if by is not KpiBy.MEANS:
            return lambda key: key or NO_GPU
        nodes = self._ledger.view().nodes.values()
        devices = {device.uuid: device for node in nodes for device in node.devices}

        def held(key: str | None) -> str:
            if key is None:
                return NO_GPU
            uuid, _, share_milli = key.rpartition(" ")
            return devices[uuid].held_by(int(share_milli)).value if uuid in devices else UNKNOWN

        return held


def response_time(requests: RequestCounts) -> ResponseTime:
    """All requests since the server began, but for those that wait on purpose."""
    count, seconds = 0, 0.0
    for route, times in list(requests.seconds.items()):
        if route not in WAITING_ROUTES:
            count += times.count
            seconds += times.sum
    return ResponseTime(count, seconds)


def _named(found: Mapping[str | None, EndedJobSums], name_of: Callable[[str | None], str]) -> dict[str, EndedJobSums]:
    named: dict[str, EndedJobSums] = {}
    for key, jobs in found.items():
        name = name_of(key)
        named[name] = added_jobs(named[name], jobs) if name in named else jobs
    return named


def _all(found: Iterable[EndedJobSums]) -> EndedJobSums:
    whole = EndedJobSums()
    for jobs in found:
        whole = added_jobs(whole, jobs)
    return whole
