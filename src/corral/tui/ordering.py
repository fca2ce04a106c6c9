"""Which devices and jobs are shown, and in which order."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf

from corral.core.model.answers.devices import DeviceRow
from corral.core.model.answers.jobs import JobRow
from corral.core.model.jobs.job_sort import JobSort, sorted_rows
from corral.formatting.device_names import device_called, short_model

JOB_ORDERS = ("queue", "time", "user", "name", "priority", "state")
"""The orders of jobs. The first is the order in which they run and wait; the others are those of a listing."""

DEVICE_ORDERS = ("index", "use", "memory", "state")

_PHASE_RANK = {"STOPPING": 0, "RUNNING": 0, "STARTING": 0, "PENDING": 1}

_WORST_FIRST = (
    *("unreadable", "unhealthy", "quarantined", "probation", "suspect", "cordoned", "stale", "in_use", "reserved"),
    *("allocated", "free"),
)


@dataclass(frozen=True, slots=True)
class RowChoice:
    """A user's choice of rows: words that each row must have, an order, and whether it is reversed."""

    words: tuple[str, ...] = ()
    order: str = ""
    backwards: bool = False
    ended: bool = False


def chosen_jobs(jobs: Iterable[JobRow], choice: RowChoice, now: float) -> list[JobRow]:
    """The jobs that are meant, in order; those that have ended last, and only if they are asked for."""
    found = [job for job in jobs if (choice.ended or not job.ended) and _has(_said_of_job(job), choice.words)]
    if choice.order in ("", "queue"):
        found.sort(key=_in_queue, reverse=choice.backwards)
        return found
    # The longest time and the lowest number of a priority first.
    return sorted_rows(found, JobSort(choice.order, (choice.order == "time") != choice.backwards), now)


def chosen_devices(devices: Iterable[DeviceRow], choice: RowChoice, several: bool) -> list[DeviceRow]:
    """The devices that are meant, in order."""
    found = [one for one in devices if _has(_said_of_device(one, several), choice.words)]
    if choice.order in _DEVICE_KEYS:
        found.sort(key=_DEVICE_KEYS[choice.order])
    return found[::-1] if choice.backwards else found


def _in_queue(job: JobRow) -> tuple[int, float, int, str]:
    rank = 2 if job.ended else _PHASE_RANK[job.phase]
    when = (-(job.ended_at or 0.0), job.started_at or inf, job.expected_start or inf)[(2, 0, 1).index(rank)]
    return rank, when, job.sequence or 0, job.id


def _memory_share(device: DeviceRow) -> float:
    if device.memory_used_mib is None or not device.memory_total_mib:
        return -1.0
    return device.memory_used_mib / device.memory_total_mib


def _badness(device: DeviceRow) -> int:
    return _WORST_FIRST.index(device.state) if device.state in _WORST_FIRST else 0


_DEVICE_KEYS: dict[str, Callable[[DeviceRow], float]] = {
    "use": lambda device: -1.0 if device.utilization_pct is None else -float(device.utilization_pct),
    "memory": lambda device: -_memory_share(device),
    "state": lambda device: float(_badness(device)),
}


def _has(said: str, words: tuple[str, ...]) -> bool:
    return all(word in said for word in words)


def _said_of_job(job: JobRow) -> str:
    parts = (job.id, job.name, job.user, job.phase, job.queue, job.project, job.wait or "", *job.nodes)
    return " ".join(parts).lower()


def _said_of_device(device: DeviceRow, several: bool) -> str:
    holders = (word for holder in device.holders for word in (holder.user, holder.job))
    return " ".join((device_called(device, several), short_model(device), device.state, *holders)).lower()
