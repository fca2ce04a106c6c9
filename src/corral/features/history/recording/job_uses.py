"""Remembers how much memory and time of their GPUs the last jobs used, to predict the use of jobs like them, and to
grant memory to packable ones.

It is kept in memory, and made anew of the ledger and the meter after a restart.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby

from corral.core.model.errors import BackendFailed
from corral.core.model.fact import MemoryPeaksObserved
from corral.core.model.jobs.job import Job, JobKind, JobSpec
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.packing import program_of
from corral.core.model.runs.prediction import JobGroup, PastOfUsers, PastValues, groups_of, remember
from corral.core.model.runs.run_history import HOUR_S, MeteredHour
from corral.core.ports.ledger import JobQuery, Ledger
from corral.core.ports.monitoring import UseOfAlike
from corral.features.history.recording.meter import Meter

LOOK_INTERVAL_S = 30.0

LEAST_RUN_S = 60.0
"""A shorter run was seen by few samples."""

LEAST_METERED = 0.9
"""The part of a run that must have been measured."""

JOBS_REMEMBERED = 2_000
"""The number of the newest jobs from which a server that starts makes its memory."""

_AT_ONCE = 64


class JobUses:
    """Looks after jobs that end. `look` is called on one thread; `predict` on any."""

    def __init__(self, ledger: Ledger, meter: Meter) -> None:
        self._ledger = ledger
        self._meter = meter
        self._live: set[str] | None = None
        self._memory_mib: PastOfUsers = {}
        self._used_pct: PastOfUsers = {}
        self._peaks: PastOfUsers = {}

    def look(self) -> None:
        """Learn from the jobs that have ended since the last look, the first time from the newest of all jobs.

        Raises LedgerFailed. What the meter cannot read is not learned.
        """
        view = self._ledger.view()
        live = {allocation.job_id for allocation in view.allocations.values()}
        if self._live is None:
            ended = self._ledger.jobs(JobQuery(phases=(Phase.SUCCEEDED,), limit=JOBS_REMEMBERED))
        else:
            ended = self._ledger.find_jobs(self._live - live)
        self._live = live
        in_order = sorted(filter(_tells, ended), key=lambda job: (job.ended_at or 0.0, job.sequence))
        for start in range(0, len(in_order), _AT_ONCE):
            self._learn(in_order[start : start + _AT_ONCE])
        if self._peaks != view.memory_peaks:
            self._ledger.observe([MemoryPeaksObserved(self._peaks)])

    def predict(self, spec: JobSpec) -> UseOfAlike:
        """The use of its GPUs that is expected of such a job."""
        groups = groups_of(spec)
        past = self._memory_mib.get(spec.user), self._used_pct.get(spec.user)
        return UseOfAlike(*(None if one is None else one.predict(groups) for one in past))

    def _learn(self, jobs: Sequence[Job]) -> None:
        # Replaced as a whole, because other threads must never see them change.
        memory_mib, used_pct, peaks = dict(self._memory_mib), dict(self._used_pct), dict(self._peaks)
        hours = [int((at or 0.0) // HOUR_S) for job in jobs for at in (job.started_at, job.ended_at)]
        allocations = {f"{job.id}.{job.launches}" for job in jobs}
        try:
            rows = [row for batch in self._meter.hours_of(allocations, min(hours), max(hours)) for row in batch]
        except BackendFailed:
            return
        measured = _by_allocation(rows)
        for job in jobs:
            of_job = measured.get(f"{job.id}.{job.launches}", ())
            if _metered_ms(of_job) >= LEAST_METERED * _granted_ms(job):
                groups, program, most_mib = groups_of(job.spec), program_of(job.spec), _most_mib(job, of_job)
                _remember(memory_mib, job, groups, most_mib)
                _remember(peaks, job, () if program is None else (program,), most_mib)
                _remember(used_pct, job, groups, 100 * sum(row.used_ms for row in of_job) / _metered_ms(of_job))
        self._memory_mib, self._used_pct, self._peaks = memory_mib, used_pct, peaks


def _tells(job: Job) -> bool:
    """Whether a job tells what such jobs need: it ran on GPUs, succeeded, and was not too short."""
    ran_s = (job.ended_at or 0.0) - (job.started_at or 0.0)
    ran = job.phase is Phase.SUCCEEDED and job.started_at is not None and ran_s >= LEAST_RUN_S
    return ran and bool(job.devices) and job.spec.kind is JobKind.RUN


def _remember(past: dict[str, PastValues], job: Job, groups: Sequence[JobGroup], value: float | None) -> None:
    if value is not None and groups:
        remember(past, job.spec.user, groups, value)


def _by_allocation(rows: Iterable[MeteredHour]) -> dict[str, list[MeteredHour]]:
    in_order = sorted(rows, key=lambda row: row.allocation_id)
    return {name: list(some) for name, some in groupby(in_order, key=lambda row: row.allocation_id)}


def _metered_ms(rows: Sequence[MeteredHour]) -> int:
    return sum(row.used_ms + row.idle_ms for row in rows)


def _granted_ms(job: Job) -> float:
    return 1000 * ((job.ended_at or 0.0) - (job.started_at or 0.0)) * len(set(job.devices))


def _most_mib(job: Job, rows: Sequence[MeteredHour]) -> float | None:
    """The most memory that the job used of one of its devices; None if it is unknown of any of them."""
    known = {row.uuid: row.memory_most_mib for row in rows if row.memory_most_mib is not None}
    if known.keys() != set(job.devices):
        return None
    return float(max(row.memory_most_mib for row in rows if row.memory_most_mib is not None))
