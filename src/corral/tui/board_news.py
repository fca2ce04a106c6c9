"""Changes of the board: the server's events and answers, decoded in the thread that receives them. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from corral.core.model.answers.devices import DeviceRow, HolderRow
from corral.core.model.answers.events import Event
from corral.core.model.answers.jobs import JobRow
from corral.core.model.answers.site import ServerInfo
from corral.wire import from_answer


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that there is. `ahead_s` is by how much the server's clock is ahead of this machine's."""

    server: ServerInfo
    devices: tuple[DeviceRow, ...]
    jobs: tuple[JobRow, ...]
    ahead_s: float = 0.0


@dataclass(frozen=True, slots=True)
class JobNews:
    """The new fields of a job; `whole` if they identify the job by themselves."""

    job_id: str
    new: Mapping[str, Any]
    whole: JobRow | None = None


@dataclass(frozen=True, slots=True)
class DeviceNews:
    """The fields of a device that are new, and when its readings were taken."""

    uuid: str
    new: Mapping[str, Any]
    taken_at: float | None = None


@dataclass(frozen=True, slots=True)
class GrantNews:
    """A job has a part of a device now."""

    uuid: str
    holder: HolderRow


@dataclass(frozen=True, slots=True)
class FreedNews:
    """A job has no device any more."""

    job_id: str


@dataclass(frozen=True, slots=True)
class Waits:
    """Why jobs wait and when they are expected to start."""

    jobs: tuple[JobRow, ...]


@dataclass(frozen=True, slots=True)
class JobsThatEnded:
    """Jobs that have ended."""

    jobs: tuple[JobRow, ...]


@dataclass(frozen=True, slots=True)
class ListedDevices:
    """All devices, read anew, with the facts that events do not carry."""

    rows: tuple[DeviceRow, ...]


@dataclass(frozen=True, slots=True)
class Past:
    """The earlier utilization of a device: moments (Unix seconds) and percent."""

    uuid: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class LookAgain:
    """A change that only a listing shows: of "devices" or "server"."""

    what: str


OfJobs = JobNews | Waits | JobsThatEnded
OfDevices = DeviceNews | GrantNews | FreedNews | ListedDevices | Past
News = Snapshot | OfJobs | OfDevices | LookAgain | ServerInfo

_JOB_FIELDS = frozenset(field.name for field in fields(JobRow))
_DEVICE_FIELDS = frozenset(field.name for field in fields(DeviceRow))


def news_of(event: Event) -> Iterator[News]:
    """Yield the changes in an event."""
    if event.topic == "alerts":
        yield LookAgain("server")
    for row in event.rows:
        if event.topic == "jobs":
            yield _of_job(event.what, row)
        elif event.topic == "metrics":
            yield _of_readings(row)
        elif event.topic == "devices":
            yield _of_device(event.what, row)


def _of_job(what: str, row: Mapping[str, Any]) -> JobNews:
    # Decoded here, so that a field of an event has the same type as in a listing.
    job = from_answer(JobRow, row)
    new = {name: getattr(job, name) for name in row if name in _JOB_FIELDS}
    return JobNews(job.id, new, job if what in ("submitted", "requeued") else None)


def _of_readings(row: Mapping[str, Any]) -> DeviceNews:
    device = from_answer(DeviceRow, row)
    new = {name: getattr(device, name) for name in row if name in _DEVICE_FIELDS}
    taken_at = row.get("taken_at")
    return DeviceNews(device.uuid, new, float(taken_at) if isinstance(taken_at, int | float) else None)


def _of_device(what: str, row: Mapping[str, Any]) -> News:
    if what == "allocated":
        return GrantNews(str(row.get("uuid")), from_answer(HolderRow, row))
    if what == "freed":
        return FreedNews(str(row.get("job")))
    return LookAgain("devices")
