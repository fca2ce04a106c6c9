"""The use and the cost of granted GPUs: from the ledger's times, the measurements, and the site's prices."""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from corral.clock import Clock
from corral.core.control.querying.wall_times import in_wall_time, period_of
from corral.core.model.answers.job_details import JobUse
from corral.core.model.devices.device import Device
from corral.core.model.devices.price import Price
from corral.core.model.errors import BackendFailed, Refused
from corral.core.model.jobs.job import JobSpec
from corral.core.model.placing.allocation import Member
from corral.core.model.runs.run_history import HeldAllocation, MeteredHour, ReportBy
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.ports.ledger import Ledger
from corral.features.accounting.answers import Report, Waste, WasteRow
from corral.features.accounting.held_devices import HOUR_MS, HeldDevice, ModelOf, held_devices, milliseconds
from corral.features.accounting.price_list import DatedPrice, PriceList
from corral.features.accounting.report_sums import LocalTime, added, report, rows_of
from corral.features.accounting.smaller_requests import command_of, smaller_request
from corral.features.accounting.waste import UnusedGrant, unused_grants

MOST_ROWS = 10_000
"""The most rows in an answer; the smallest further ones are added up."""

MOST_ALLOCATIONS = 500_000
MOST_PIECES = 2_000_000
"""The most allocations, or hours of them, in one count. That takes a few seconds of a thread of its own."""

MOST_WASTEFUL = 100
"""The most jobs in an answer about unused grants."""

_WASTE_BEFORE_S = 7 * 86400.0
_HOUR_S = 3600
_QUARTER_S = 900


class Measures(Protocol):
    """The measurements of granted devices, in batches. Either call may raise BackendFailed."""

    def hours(self, first: int, last: int) -> Iterator[Sequence[MeteredHour]]:
        """All of the hours from the first to the last (since 1970)."""
        ...

    def hours_of(self, allocations: Collection[str], first: int, last: int) -> Iterator[Sequence[MeteredHour]]:
        """Yield the measurements of some allocations."""
        ...


class GpuReports:
    """Adds up allocations, as `Accounts` does, together with their measurements."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        measures: Measures,
        *,
        prices: Sequence[Price] = (),
        currency: str | None = None,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._measures = measures
        self._prices = prices
        self._currency = currency

    def report(self, by: Sequence[ReportBy], *, since: float | None = None, until: float | None = None) -> Report:
        """Return the grants between two times (Unix seconds; by default the last week), grouped by these keys.

        Raises Refused for an empty period, and for more than can be counted at once; LedgerFailed; and BackendFailed if
        the measurements cannot be read.
        """
        words = tuple(dict.fromkeys(by))
        begin, end = period_of(self._clock, since, until)
        span_ms = milliseconds(begin), milliseconds(end)
        local = self._local_time(begin, end)
        devices = held_devices(self._held(begin, end), self._clock.now(), self._model_of())
        if {ReportBy.HOUR, ReportBy.WEEKDAY} & set(words):
            devices = _few_pieces(devices, span_ms, local.step_ms)
        sums = report(
            devices,
            self._measures.hours(int(begin // _HOUR_S), int(end // _HOUR_S)),
            words,
            span_ms,
            prices=self._price_list(),
            local=local,
        )
        rows, left = rows_of(sums, words, MOST_ROWS)
        told = Report(
            tuple(word.value for word in words),
            begin,
            end,
            tuple(rows),
            added(sums.values()).row({}),
            self._currency if self._prices else None,
            added(left).row({}) if left else None,
            len(left),
        )
        return in_wall_time(told, self._clock)

    def of_job(self, job_id: str) -> JobUse | None:
        """Return the sums over all attempts of a job so far; None if it never had a device.

        If the measurements cannot be read, its time is unmetered.
        """
        now = self._clock.now()
        held = list(self._ledger.held(0.0, now, job_id=job_id, limit=MOST_ALLOCATIONS))
        if not held:
            return None
        first = min(allocation.created_at for allocation in held)
        ids = {allocation.id for allocation in held}
        try:
            metered = list(self._measures.hours_of(ids, int(first // _HOUR_S), int(now // _HOUR_S)))
        except BackendFailed:
            metered = []
        span, prices = (0, milliseconds(now)), self._price_list()
        devices = held_devices(held, now, self._model_of())
        sums = report(devices, metered, (), span, prices=prices, local=self._local_time(first, now))
        row = added(sums.values()).row({})
        return JobUse(
            row.gpu_hours,
            row.used_hours,
            row.idle_hours,
            row.unmetered_hours,
            row.wasted_hours,
            row.energy_kwh,
            row.cost,
            self._currency if row.cost is not None else None,
        )

    def waste(self, *, since: float | None = None, until: float | None = None) -> Waste:
        """Return the jobs that had GPUs between two times and did not use their grants. Raises as `report` does."""
        begin, end = period_of(self._clock, since, until)
        known = self._known_devices()

        def granted_mib(held: HeldDevice) -> int | None:
            grants = [grant for member in held.allocation.members for grant in member.grants if grant.uuid == held.uuid]
            device = known.get(held.uuid)
            if grants[0].memory_mib is not None or device is None or device.memory_mib is None:
                return grants[0].memory_mib
            return device.memory_mib * grants[0].share_milli // MILLI_PER_DEVICE

        devices = held_devices(self._held(begin, end), self._clock.now(), self._model_of())
        # An attempt is judged whole, of which a part may lie before the period.
        first = int((begin - _WASTE_BEFORE_S) // _HOUR_S)
        found = unused_grants(
            ((held, granted_mib(held)) for held in devices), self._measures.hours(first, int(end // _HOUR_S))
        )
        told = found[:MOST_WASTEFUL]
        jobs = {job.id: job for job in self._ledger.find_jobs([one.allocation.job_id for one in told])}
        rows = tuple(_waste_row(one, jobs[one.allocation.job_id].spec) for one in told if one.allocation.job_id in jobs)
        return in_wall_time(Waste(begin, end, rows, len(found) - len(rows)), self._clock)

    def _held(self, begin: float, end: float) -> Iterator[HeldAllocation]:
        for number, allocation in enumerate(self._ledger.held(begin, end)):
            if number == MOST_ALLOCATIONS:
                raise Refused(
                    f"more than {MOST_ALLOCATIONS:,} attempts of jobs had GPUs in this time; ask for a shorter time",
                    field="since",
                )
            yield allocation

    def _model_of(self) -> ModelOf:
        """Return a function for the model of a device: the model at its allocation, so that old bills do not change,
        else today's.
        """
        known = {uuid: device.model for uuid, device in self._known_devices().items()}
        return lambda allocation, uuid: _chosen(allocation.members, allocation.models).get(uuid) or known.get(uuid)

    def _known_devices(self) -> dict[str, Device]:
        return {device.uuid: device for node in self._ledger.view().nodes.values() for device in node.devices}

    def _price_list(self) -> PriceList:
        return PriceList(
            DatedPrice(price, None if price.begins_at is None else milliseconds(self._clock.taken(price.begins_at)))
            for price in self._prices
        )

    def _local_time(self, begin: float, end: float) -> LocalTime:
        """This machine's time zone. Not all zones are whole hours from UTC."""
        # A period may begin before all time that a zone is known of.
        ends = [time.localtime(self._clock.shown(max(at, 0.0))).tm_gmtoff for at in (begin, (begin + end) / 2, end)]
        step_s = _QUARTER_S if any(offset % _HOUR_S for offset in ends) else _HOUR_S

        def at(at_ms: int) -> tuple[int, int]:
            moment = time.localtime(self._clock.shown(at_ms / 1000))
            return moment.tm_hour, moment.tm_wday

        return LocalTime(at, step_s * 1000)


@lru_cache(maxsize=4096)
def _chosen(members: tuple[Member, ...], models: tuple[str, ...]) -> Mapping[str, str]:
    """The model of each device as it was chosen; none if that was not kept of all."""
    uuids = [grant.uuid for member in members for grant in member.grants]
    return dict(zip(uuids, models, strict=True)) if len(uuids) == len(models) else {}


def _waste_row(unused: UnusedGrant, spec: JobSpec) -> WasteRow:
    request = smaller_request(spec, unused)
    return WasteRow(
        unused.allocation.job_id,
        unused.allocation.job_name,
        unused.allocation.user,
        unused.devices,
        unused.devices_used,
        unused.device_ms / HOUR_MS,
        unused.idle_ms / HOUR_MS,
        unused.memory_most_mib,
        unused.memory_granted_mib,
        unused.oversized,
        request,
        command_of(spec, request),
    )


def _few_pieces(devices: Iterable[HeldDevice], span_ms: tuple[int, int], step_ms: int) -> Iterator[HeldDevice]:
    """Yield the devices. Raises Refused if there are too many hours to report by hour or by weekday."""
    pieces = 0
    for device in devices:
        pieces += max(0, min(device.end_ms, span_ms[1]) - max(device.begin_ms, span_ms[0])) // step_ms + 1
        if pieces > MOST_PIECES:
            raise Refused(
                f"the GPUs were held for more than {MOST_PIECES:,} hours in this time, too many for a report by "
                "hour or weekday; ask for a shorter time",
                field="since",
            )
        yield device
