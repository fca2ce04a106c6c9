"""The records of all live allocations: their launches, and the state of each launch.

There is one record per allocation. Records are in memory only. After a restart they are rebuilt from the ledger and the
reports of the nodes.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from corral.clock import CLOCKS_AGREE_S
from corral.core.lifecycle import stopping
from corral.core.lifecycle.members import Gang, fold
from corral.core.model.jobs.job import Job
from corral.core.model.placing.allocation import Allocation
from corral.core.model.runs.launch import Launch, LaunchPhase, LaunchReport, member_of
from corral.core.model.view import View
from corral.core.ports.ledger import Ledger

_BEGUN = frozenset({LaunchPhase.CLAIMED, LaunchPhase.RUNNING})

LaunchesOf = Callable[[Job, Allocation, View], tuple[Launch, ...]]


@dataclass(slots=True)
class Attempt:
    """One attempt to run a job: the launches of its allocation, and their state.

    Attributes:
        launches: in order of rank.
        asked_at: the time at which the node of a rank was asked to launch it, in monotonic seconds.
        reports: the newest report of each rank; the report of an end is never replaced.
        half_since: the time since which only a part of the gang is known to have begun, in monotonic seconds.
        given_up: ranks that were given up with their nodes. They may still run there.
        checkpoint_until: the end of the job's time for saving its state before it is stopped, in monotonic seconds.
        signalled: ranks that received the signal to save their state.
        stop_noted: ranks whose logs have the line about the stop.
        trouble: the reason why the last step failed, while it is retried.
        sending: how far its files are, by the node that they are sent to.
        arrived: the nodes that have them, while others still get them.
        delivered: whether all nodes have them.
    """

    allocation_id: str
    job_id: str
    launches: tuple[Launch, ...]
    asked_at: dict[int, float] = field(default_factory=dict)
    reports: dict[int, LaunchReport] = field(default_factory=dict)
    half_since: float | None = None
    given_up: set[int] = field(default_factory=set)
    checkpoint_until: float | None = None
    signalled: set[int] = field(default_factory=set)
    stop_noted: set[int] = field(default_factory=set)
    trouble: str | None = None
    sending: dict[str, str] = field(default_factory=dict)
    arrived: int = 0
    delivered: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def user(self) -> str:
        """The user of the job."""
        return self.launches[0].job.spec.user

    def report(self, rank: int) -> LaunchReport:
        """Return the newest report of a rank."""
        return self.reports.get(rank) or LaunchReport(self.launches[rank].id, LaunchPhase.UNKNOWN)

    def delay(self) -> str | None:
        """Return why a member has not begun or cannot be observed, as its node says; None if there is no such
        reason.
        """
        reports = [self.report(launch.rank) for launch in self.launches]
        return next((one.reason for one in reports if one.phase in _BEGUN and one.reason), None)

    def is_over(self, rank: int) -> bool:
        """Return whether this member has ended, or will never run."""
        return self.report(rank).phase.over

    def take(self, rank: int, report: LaunchReport) -> None:
        """Store a node's report of a rank. The first report of an end is final: the node may have forgotten it
        since.
        """
        with self._lock:
            if not self.is_over(rank):
                self.reports[rank] = report

    def begin(self, rank: int, now: float) -> bool:
        """Record that the rank is being launched. Return False if that was done before, or the rank is over."""
        with self._lock:
            if rank in self.asked_at or self.is_over(rank):
                return False
            self.asked_at[rank] = now
            return True

    def told(self, launch: Launch) -> None:
        """Replace a launch by this one, which its node now has."""
        with self._lock:
            self.launches = tuple(launch if one.rank == launch.rank else one for one in self.launches)

    def gang(self) -> Gang:
        """Return the combined state of all members, from their reports."""
        reports = [self.report(launch.rank) for launch in self.launches]
        nodes = [launch.node for launch in self.launches]
        return fold(reports, nodes, script=self.launches[0].job.spec.script)

    def half_begun(self) -> tuple[int, ...]:
        """Return the ranks in state UNKNOWN while other members of the gang have begun; () otherwise."""
        phases = [self.report(launch.rank).phase for launch in self.launches]
        if not any(phase in _BEGUN for phase in phases):
            return ()
        return tuple(rank for rank, phase in enumerate(phases) if phase is LaunchPhase.UNKNOWN)

    def on(self, node: str) -> tuple[Launch, ...]:
        """Return the launches on a node."""
        return tuple(launch for launch in self.launches if launch.node == node)


@dataclass(frozen=True, slots=True)
class _Live:
    """The records of the live allocations of a view, also by node. `jobs` and `allocations` are those of the view."""

    jobs: Mapping[str, Job]
    allocations: Mapping[str, Allocation]
    attempts: tuple[Attempt, ...]
    by_node: Mapping[str, tuple[Attempt, ...]]


class Attempts:
    """The records of all live allocations. Thread-safe."""

    def __init__(self, ledger: Ledger, launches_of: LaunchesOf) -> None:
        self._ledger = ledger
        self._launches_of = launches_of
        self._lock = threading.Lock()
        self._attempts: dict[str, Attempt] = {}
        self._last_live: _Live | None = None

    def job_of(self, attempt: Attempt) -> Job | None:
        """Return the job as the ledger has it, None if it no longer holds this allocation."""
        view = self._ledger.view()
        return view.jobs.get(attempt.job_id) if attempt.allocation_id in view.allocations else None

    def of(self, allocation_id: str) -> Attempt | None:
        """Return the record of an allocation. A missing record of a live allocation is created; None if the
        allocation is not live.
        """
        known = self._attempts.get(allocation_id)
        if known is not None:
            return known
        view = self._ledger.view()
        allocation = view.allocations.get(allocation_id)
        job = None if allocation is None else view.jobs.get(allocation.job_id)
        if allocation is None or job is None:
            return None
        made = Attempt(allocation_id, job.id, self._launches_of(job, allocation, view))
        with self._lock:
            return self._attempts.setdefault(allocation_id, made)

    def of_job(self, job_id: str) -> Attempt | None:
        """Return the record of a job's allocation, None if it has none."""
        job = self._ledger.view().jobs.get(job_id)
        return None if job is None or job.allocation_id is None else self.of(job.allocation_id)

    def of_launch(self, node: str, launch_id: str) -> tuple[Attempt, Launch] | None:
        """Return the record and the launch with this id on a node.

        None if the allocation is over, or if the launch is on another node: nodes report only their own launches.
        """
        allocation_id, rank = member_of(launch_id)
        attempt = self.of(allocation_id)
        if attempt is None or rank >= len(attempt.launches) or attempt.launches[rank].node != node:
            return None
        return attempt, attempt.launches[rank]

    def live(self) -> list[Attempt]:
        """Return the records of all live allocations, in order of submission."""
        return list(self._live().attempts)

    def on(self, node: str) -> list[tuple[Attempt, Launch]]:
        """Return every launch of a live allocation on a node, with its record."""
        attempts = self._live().by_node.get(node, ())
        return [(attempt, launch) for attempt in attempts for launch in attempt.on(node)]

    def renew(self, node: str) -> None:
        """Build the launches on a node again: its devices may have been unknown when their records were made."""
        view = self._ledger.view()
        for attempt in self._live().by_node.get(node, ()):
            job, allocation = view.jobs.get(attempt.job_id), view.allocations.get(attempt.allocation_id)
            if job is not None and allocation is not None:
                fresh = self._launches_of(job, allocation, view)
                for launch in fresh:
                    if launch.node == node:
                        attempt.told(launch)

    def _live(self) -> _Live:
        """Return the current live records. They are cached: at a start thousands of nodes ask while nothing changes."""
        view, last = self._ledger.view(), self._last_live
        if last is not None and last.jobs is view.jobs and last.allocations is view.allocations:
            return last
        found = (self.of(job.allocation_id or "") for job in stopping.live(view))
        attempts = tuple(attempt for attempt in found if attempt is not None)
        by_node: dict[str, list[Attempt]] = {}
        for attempt in attempts:
            for node in dict.fromkeys(launch.node for launch in attempt.launches):
                by_node.setdefault(node, []).append(attempt)
        by_name = {node: tuple(those) for node, those in by_node.items()}
        self._last_live = made = _Live(view.jobs, view.allocations, attempts, by_name)
        return made

    def known(self) -> tuple[Attempt, ...]:
        """Return all records, including those of allocations that have just ended."""
        with self._lock:
            return tuple(self._attempts.values())

    def trouble(self, allocation_id: str) -> str | None:
        """Return why an allocation has not begun: its files are being sent, or the next step fails and is retried.

        None if there is no such reason.
        """
        attempt = self._attempts.get(allocation_id)
        if attempt is None:
            return None
        return next(iter(tuple(attempt.sending.values())), None) or attempt.trouble or attempt.delay()

    def drop(self, allocation_id: str) -> Attempt | None:
        """Delete a record and return it; only the first caller gets it."""
        with self._lock:
            return self._attempts.pop(allocation_id, None)


def shifted(
    reports: Iterable[LaunchReport], by_s: float, launches: Iterable[Launch], latest: float
) -> tuple[LaunchReport, ...]:
    """Return the reports of a node's launches with their times by the server's clock, which is `by_s` seconds ahead of
    the node's.

    Nothing began before its job was submitted, or happens after `latest`, which is now: a node may be wrong.
    """
    moved_s = 0.0 if abs(by_s) <= CLOCKS_AGREE_S else by_s
    return tuple(
        _at_possible_times(report, moved_s, -inf if launch.runtime == "watch" else launch.job.submitted_at, latest)
        for report, launch in zip(reports, launches, strict=True)
    )


def _at_possible_times(report: LaunchReport, by_s: float, earliest: float, latest: float) -> LaunchReport:
    def moved(at: float | None) -> float | None:
        if at is None or (not by_s and earliest <= at <= latest):
            return at
        return min(latest, max(earliest, at + by_s))

    started_at, ended_at, saved_at = moved(report.started_at), moved(report.ended_at), moved(report.saved_at)
    if (started_at, ended_at, saved_at) == (report.started_at, report.ended_at, report.saved_at):
        return report
    return replace(report, started_at=started_at, ended_at=ended_at, saved_at=saved_at)
