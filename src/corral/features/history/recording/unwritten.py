"""Readings that wait to be written."""

from corral.features.history.recording.readings import JobPart, NewReadings, jobs_key
from corral.features.history.recording.series import DeviceReadings

MOST_WAITING = 3000
"""The most readings that wait per device, its job, user, project and node included. Then the oldest half is dropped."""


class Unwritten:
    """Readings that are not in the file yet, by key. Bounded; not safe between threads.

    Attributes:
        named: readings of devices, nodes, users and projects.
        jobs: readings of jobs that share their blocks.
        highest_job: the highest number of a job with readings.
    """

    def __init__(self) -> None:
        self.named: dict[str, list[DeviceReadings]] = {}
        self.jobs: dict[str, list[tuple[JobPart, DeviceReadings]]] = {}
        self.highest_job = 0
        self._count = 0

    def add(self, new: NewReadings, devices: int) -> bool:
        """Add new readings. Return whether so many wait for this number of devices that they should be written."""
        for key, reading in new.named:
            self.named.setdefault(key, []).append(reading)
        for part, reading in new.jobs:
            self.jobs.setdefault(jobs_key(part.sequence), []).append((part, reading))
            self.highest_job = max(self.highest_job, part.sequence)
        self._count += len(new.named) + len(new.jobs)
        if self._count > MOST_WAITING * devices:
            self._drop_oldest()
        return self._count > MOST_WAITING * devices // 2

    def done(self, key: str) -> None:
        """Remove the readings under this key: they are in the file."""
        self._count -= len(self.named.pop(key, ())) + len(self.jobs.pop(key, ()))

    def _drop_oldest(self) -> None:
        self.named = {key: waiting[len(waiting) // 2 :] for key, waiting in self.named.items()}
        self.jobs = {key: waiting[len(waiting) // 2 :] for key, waiting in self.jobs.items()}
        self._count = sum(map(len, self.named.values())) + sum(map(len, self.jobs.values()))
