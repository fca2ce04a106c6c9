"""Writes the results of launches to the ledger."""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from corral.clock import Clock
from corral.core.control.launching.attempts import Attempt, Attempts
from corral.core.lifecycle import ending, starting, stopping
from corral.core.lifecycle.members import ends_of
from corral.core.lifecycle.retry_backoff import Backoff
from corral.core.model.fact import AllocationEnded, Fact, ServerPart
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.attempt import MemberEnd
from corral.core.model.runs.launch import LaunchPhase, LaunchReport
from corral.core.model.view import View
from corral.core.ports.ledger import Decided, Ledger

log = logging.getLogger(__name__)

_Facts = Callable[[View, Job, float], list[Fact]]


class Outcomes:
    """Converts the combined reports of an attempt to facts about its job. Thread-safe. It asks no node."""

    def __init__(
        self,
        ledger: Ledger,
        attempts: Attempts,
        clock: Clock,
        backoff: Backoff,
        *,
        kill_grace_s: float,
        stop: Callable[[str], None],
        stop_members: Callable[[Attempt, tuple[int, ...]], None],
        forget: Callable[[str], None],
    ) -> None:
        """`stop` ends a job that is STOPPING, `stop_members` stops some members of a gang, `forget` cleans up an
        ended allocation.
        """
        self._ledger = ledger
        self._attempts = attempts
        self._clock = clock
        self._backoff = backoff
        self._kill_grace_s = kill_grace_s
        self._stop = stop
        self._stop_members = stop_members
        self._forget = forget

    def settle(self, attempt: Attempt, *, by: ServerPart = ServerPart.DISPATCHER) -> "Future[bool] | None":
        """Write the consequences of the reports so far for the job. Return None if there are none."""
        job = self._attempts.job_of(attempt)
        if job is None:
            self._forget(attempt.allocation_id)
            return None
        gang = attempt.gang()
        report = gang.report
        if gang.to_stop:
            self._stop_members(attempt, gang.to_stop)
        match report.phase:
            case LaunchPhase.RUNNING if job.phase is Phase.STARTING:
                return self._record(
                    attempt, lambda view, j, at: starting.running(view, j, report.started_at, by=by, at=at)
                )
            case LaunchPhase.CLAIMED | LaunchPhase.RUNNING if self._overdue(job, report, by, self._clock.now()):
                stopped = self._record(attempt, lambda _, j, at: self._overdue(j, report, by, at))
                stopped.add_done_callback(lambda _: self._stop(attempt.allocation_id))
                return stopped
            case LaunchPhase.EXITED | LaunchPhase.DEAD | LaunchPhase.DECLARED_LOST:
                ends = ends_of([attempt.report(launch.rank) for launch in attempt.launches])
                return self._record(
                    attempt, lambda view, j, at: _with_members(self._ended(view, j, report, by, at), ends)
                )
        return None

    def note_trouble(self, attempt: Attempt, what: str, error: BaseException | None) -> None:
        """Log once why the next step fails; the recheck tries it again."""
        if attempt.trouble != str(error):
            log.error("%s, and is tried again: %s", what, error)
        attempt.trouble = str(error)

    def _overdue(self, job: Job, report: LaunchReport, by: str, at: float) -> list[Fact]:
        return stopping.overdue(job, report, self._kill_grace_s, by=by, at=at)

    def _ended(self, view: View, job: Job, report: LaunchReport, by: str, at: float) -> list[Fact]:
        if report.phase is not LaunchPhase.DECLARED_LOST or job.phase is Phase.RUNNING:
            return ending.ended(view, job, report, by=by, at=at, backoff=self._backoff)
        if report.reason is None:
            return starting.never_ran(view, job, by=by, at=at)
        return starting.launch_failed(view, job, report.reason, by=by, at=at, backoff=self._backoff, again=report.again)

    def _record(self, attempt: Attempt, facts: _Facts) -> "Future[bool]":
        """Commit the result of `facts` for the job. Afterwards forget the allocation if it is over."""
        allocation_id = attempt.allocation_id

        def decide(view: View) -> Decided[bool]:
            allocation = view.allocations.get(allocation_id)
            if allocation is None:
                return Decided((), True)
            found = tuple(facts(view, view.jobs[allocation.job_id], self._clock.now()))
            return Decided(found, any(isinstance(fact, AllocationEnded) for fact in found))

        future = self._ledger.commit(decide)
        future.add_done_callback(lambda done: self._recorded(attempt, done))
        return future

    def _recorded(self, attempt: Attempt, done: "Future[Any]") -> None:
        if done.exception() is not None:
            what = f"the end of launch {attempt.allocation_id} is not recorded"
            self.note_trouble(attempt, what, done.exception())
            return
        attempt.trouble = None
        if done.result():
            self._forget(attempt.allocation_id)


def _with_members(facts: list[Fact], ends: tuple[MemberEnd, ...]) -> list[Fact]:
    """Return the facts, with the ends of the members of a gang."""
    return [replace(fact, members=ends) if ends and isinstance(fact, AllocationEnded) else fact for fact in facts]
