"""The present state of devices and jobs, and the effect of changes on it. For one thread; it sends no request."""

from collections.abc import Iterable
from dataclasses import replace

from corral.core.model.answers.devices import DeviceRow, HolderRow
from corral.core.model.answers.jobs import JobRow
from corral.core.model.answers.site import ServerInfo
from corral.formatting.job_words import Place, places_of
from corral.tui.board_news import (
    DeviceNews,
    FreedNews,
    GrantNews,
    JobNews,
    JobsThatEnded,
    ListedDevices,
    LookAgain,
    News,
    OfDevices,
    OfJobs,
    Past,
    Snapshot,
    Waits,
)
from corral.tui.sparks import Sparks

MOST_ENDED = 500
"""The number of ended jobs that are kept, the newest."""

_TOLD_BY_EVENTS = frozenset({"free", "allocated", "reserved"})
"""States of devices that events describe fully; for all others a listing has the reason."""


class Board:
    """Devices in the order of the listing, jobs by id, and sparks.

    Attributes:
        jobs_version: grows when a job changes; sorted lists must then be sorted again.
        look_again: what must be read anew, "devices" or "server"; the reader empties it.
    """

    def __init__(self) -> None:
        self.server = ServerInfo()
        self.devices: dict[str, DeviceRow] = {}
        self.jobs: dict[str, JobRow] = {}
        self.places: dict[str, Place] = {}
        self.sparks = Sparks()
        self.ahead_s = 0.0
        self.jobs_version = 0
        self.look_again: set[str] = set()
        self._ended: dict[str, None] = {}
        self._held: dict[str, set[str]] = {}

    @property
    def waiting(self) -> bool:
        """Whether any job waits."""
        return any(job.phase == "PENDING" for job in self.jobs.values())

    def apply(self, news: Iterable[News]) -> None:
        """Apply changes in their order."""
        for one in news:
            self._apply(one)

    def _apply(self, news: News) -> None:
        match news:
            case Snapshot():
                self._begin_with(news)
            case JobNews() | Waits() | JobsThatEnded():
                self._apply_to_jobs(news)
            case LookAgain(what):
                self.look_again.add(what)
            case ServerInfo():
                self.server = news
            case _:
                self._apply_to_devices(news)

    def _apply_to_jobs(self, news: OfJobs) -> None:
        match news:
            case JobNews():
                self._change_job(news)
            case Waits(jobs):
                self._explain(jobs)
            case JobsThatEnded(jobs):
                for job in reversed(jobs):
                    self._put(job)

    def _apply_to_devices(self, news: OfDevices) -> None:
        match news:
            case DeviceNews():
                self._change_device(news)
            case GrantNews(uuid, holder):
                self._grant(uuid, holder)
            case FreedNews(job_id):
                self._free(job_id)
            case ListedDevices(rows):
                self._list_devices(rows)
            case Past(uuid, points):
                self.sparks.add_past(uuid, points)

    def _begin_with(self, news: Snapshot) -> None:
        self.server, self.ahead_s = news.server, news.ahead_s
        self.jobs = {}
        self._ended = {}
        self.sparks.forget_past()
        self._list_devices(news.devices)
        for job in news.jobs:
            self._put(job)
        self.jobs_version += 1

    def _list_devices(self, rows: Iterable[DeviceRow]) -> None:
        self.devices = {row.uuid: row for row in rows}
        self.places = places_of(tuple(self.devices.values()))
        self._held = {}
        for row in self.devices.values():
            for holder in row.holders:
                self._held.setdefault(holder.job, set()).add(row.uuid)
        self.jobs_version += 1

    def _change_job(self, news: JobNews) -> None:
        before = self.jobs.get(news.job_id)
        if before is not None:
            changed = replace(before, **news.new)
            waits = changed.phase == "PENDING"
            self._put(changed if waits else replace(changed, wait=None, expected_start=None, expected_start_is=None))
        elif news.whole is not None:
            self._put(news.whole)

    def _put(self, job: JobRow) -> None:
        self.jobs[job.id] = job
        self.jobs_version += 1
        self._ended.pop(job.id, None)
        if job.ended:
            self._ended[job.id] = None
            while len(self._ended) > MOST_ENDED:
                oldest = next(iter(self._ended))
                del self._ended[oldest]
                self.jobs.pop(oldest, None)

    def _explain(self, jobs: Iterable[JobRow]) -> None:
        """Take waits and expected starts of jobs that still wait. Other fields may be older than later events."""
        for job in jobs:
            known = self.jobs.get(job.id)
            if known is not None and known.phase == "PENDING":
                told = {name: getattr(job, name) for name in ("wait", "expected_start", "expected_start_is")}
                self.jobs[job.id] = replace(known, **told)
        self.jobs_version += 1

    def _change_device(self, news: DeviceNews) -> None:
        device = self.devices.get(news.uuid)
        if device is None:
            self.look_again.add("devices")
            return
        changed = replace(device, **news.new)
        self.devices[news.uuid] = changed
        if changed.state != device.state and not {changed.state, device.state} <= _TOLD_BY_EVENTS:
            self.look_again.add("devices")
        if news.taken_at is not None and changed.utilization_pct is not None:
            self.sparks.add(news.uuid, news.taken_at, changed.utilization_pct)

    def _grant(self, uuid: str, holder: HolderRow) -> None:
        if (device := self.devices.get(uuid)) is not None:
            others = tuple(other for other in device.holders if other.job != holder.job)
            self.devices[uuid] = replace(device, holders=(*others, holder))
            self._held.setdefault(holder.job, set()).add(uuid)

    def _free(self, job_id: str) -> None:
        for uuid in self._held.pop(job_id, ()):
            device = self.devices[uuid]
            left = tuple(holder for holder in device.holders if holder.job != job_id)
            self.devices[uuid] = replace(device, holders=left)
