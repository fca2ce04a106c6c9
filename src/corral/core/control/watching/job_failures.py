"""Adds to the samples of devices that the jobs of several users fail on them."""

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from corral.clock import Clock
from corral.core.lifecycle.failures_by_device import JobEnd, failing_devices
from corral.core.model.devices.device import DeviceSample
from corral.core.model.devices.health import HealthSign
from corral.core.model.fact import Delta, JobChanged
from corral.core.model.jobs.job import JobKind
from corral.core.model.jobs.phase import Phase
from corral.core.model.view import View
from corral.core.ports.ledger import JobQuery, Ledger
from corral.core.ports.telemetry import Samples

MOST_ENDS = 2000
"""The most ends of jobs that are remembered."""

LOOKED_BACK_AT = 500
"""The number of jobs that had ended before the server started, and still count."""

_BY_THEMSELVES = (Phase.SUCCEEDED, Phase.FAILED)


class JobFailures:
    """The newest samples, with signs of devices on which jobs fail out of line. Thread-safe.

    At first it learns of the jobs that ended last before the server started.
    """

    def __init__(self, ledger: Ledger, telemetry: Samples, clock: Clock) -> None:
        self._ledger = ledger
        self._telemetry = telemetry
        self._clock = clock
        self._lock = threading.Lock()
        self._ends: deque[JobEnd] = deque(maxlen=MOST_ENDS)
        self._before = ledger.view()
        self._looked_back = self._changed = False
        self._signs: dict[str, HealthSign] = {}

    def _look_back(self) -> None:
        query = JobQuery(phases=_BY_THEMSELVES, limit=LOOKED_BACK_AT)
        jobs = [job for job in self._ledger.jobs(query) if job.ended_at]
        places = self._ledger.last_allocations([job.id for job in jobs])
        ends = [
            JobEnd(job.spec.user, places[job.id].placement.uuids, job.phase is Phase.FAILED, job.ended_at or 0.0)
            for job in jobs
            if job.id in places and job.spec.kind is JobKind.RUN
        ]
        with self._lock:
            self._ends = deque(sorted({*ends, *self._ends}, key=_by_time)[-MOST_ENDS:], maxlen=MOST_ENDS)
            self._looked_back = self._changed = True

    def on_change(self, view: View, deltas: Sequence[Delta]) -> None:
        """Remember the ends of jobs. A listener for `Ledger.subscribe`."""
        for delta in deltas:
            if isinstance(delta, JobChanged) and delta.changes.get("phase") in _BY_THEMSELVES:
                self._note(delta)
        self._before = view

    def _note(self, delta: JobChanged) -> None:
        job = self._before.jobs.get(delta.job_id)
        held = None if job is None else self._before.allocations.get(job.allocation_id or "")
        if job is None or held is None or job.spec.kind is not JobKind.RUN or not held.placement.uuids:
            return
        failed, ended_at = delta.changes.get("phase") is Phase.FAILED, delta.changes.get("ended_at") or delta.at
        with self._lock:
            self._ends.append(JobEnd(job.spec.user, held.placement.uuids, failed, ended_at))
            self._changed = True

    def latest(self) -> dict[str, DeviceSample]:
        """Return the last sample of each device by UUID, as the telemetry does, with these signs."""
        if not self._looked_back:
            self._look_back()
        samples, signs = self._telemetry.latest(), self._present_signs()
        for uuid, sign in signs.items():
            if uuid in samples:
                samples[uuid] = replace(samples[uuid], signs=(*samples[uuid].signs, sign))
        return samples

    def _present_signs(self) -> dict[str, HealthSign]:
        """Return the signs as of the last end of a job: they are events, and time alone brings none."""
        with self._lock:
            if self._changed:
                self._signs, self._changed = failing_devices(tuple(self._ends), self._clock.now()), False
            return self._signs


def _by_time(end: JobEnd) -> tuple[float, JobEnd]:
    return end.at, end
