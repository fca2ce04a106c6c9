"""Explains a job: why it waits and when it will start, its present state, and why it failed."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from corral.clock import Clock
from corral.core.access.caller import Caller
from corral.core.access.permissions import can_read_log
from corral.core.control.querying.listing_rows import holding
from corral.core.control.querying.outlooks import Outlooks
from corral.core.control.querying.predictions import Predictions, offer
from corral.core.control.querying.queries import Decisions, Queries
from corral.core.control.querying.wall_times import in_wall_time
from corral.core.diagnosis.failure import Diagnosis
from corral.core.model.answers.job_details import Explanation, WaitPart
from corral.core.model.audience import Audience
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.plan import WaitReason
from corral.core.model.units import count_of
from corral.core.model.view import View
from corral.core.ports.ledger import Ledger
from corral.core.scheduling.explaining.packed_words import packing_clause
from corral.core.scheduling.explaining.why import ended_sentence, explain
from corral.core.scheduling.forecast import ExpectedStart, MakePlanner, expected_starts
from corral.core.scheduling.planner import Planner


class LogEnds(Protocol):
    """Diagnoses from the ends of logs of ended jobs. A call takes as long as the nodes need to answer."""

    def of(self, job: Job, audience: Audience) -> Diagnosis | None:
        """Return why a job failed, with a remedy for this reader; None if unknown."""
        ...

    def missing_bytes(self, job: Job) -> int | None:
        """Return the number of missing bytes of its output; None if unknown."""
        ...


class Explanations:
    """Explains jobs by the ledger, the last plan, and the ends of their logs."""

    def __init__(
        self,
        ledger: Ledger,
        decisions: Decisions,
        clock: Clock,
        queries: Queries,
        *,
        outlooks: Outlooks,
        predictions: Predictions,
        log_ends: LogEnds,
        planner: MakePlanner = Planner,
        trouble: Callable[[str], str | None],
        may_still_run: Callable[[str], str | None],
    ) -> None:
        """`trouble` returns why the next step of an allocation's launch fails. `may_still_run` returns a warning about
        attempts of a job that may still run.
        """
        self._ledger = ledger
        self._decisions = decisions
        self._clock = clock
        self._queries = queries
        self._outlooks = outlooks
        self._predictions = predictions
        self._log_ends = log_ends
        self._planner = planner
        self._trouble = trouble
        self._may_still_run = may_still_run

    def of(self, job_id: str, audience: Audience = Audience.COMMAND_LINE, *, admin: bool = False) -> Explanation:
        """Explain why a job waits, or how it spent its waiting time; for an array, also its jobs by phase. Raises
        NotFound.

        For an `admin` the explanation also names settings that could be changed.
        """
        if job_id not in self._ledger.view().jobs:
            elements = self._queries.named(job_id)
            if elements and elements[0].id != job_id:
                return self._array(job_id, elements, audience, admin=admin)
        job = self._queries.find(job_id)
        now = self._clock.now()
        waited = tuple(WaitPart(reason, seconds) for reason, seconds in self._decisions.waited(job))
        view = self._ledger.view()
        if job.phase is not Phase.PENDING:
            return self._not_waiting(view, job, now, waited)
        with self._outlooks.current() as outlook:
            view, job = outlook.view, outlook.view.jobs.get(job_id) or self._queries.find(job_id)
            if job.phase is not Phase.PENDING:
                return self._not_waiting(view, job, now, waited)
            wait = self._queries.waits().of(job)
            plan = self._decisions.plan
            found = explain(view, job, wait, now, plan=plan, outlook=outlook, audience=audience, admin=admin)
        obstacle, sentence = self._decisions.obstacle, found.sentence
        if obstacle is not None or audience is not Audience.COMMAND_LINE:
            predicted = self._predictions.of(view, job.spec)
        else:
            predicted = self._predictions.offered(view, job, now)
            if (offered := offer(predicted, job)) is not None:
                sentence = f"{sentence} {offered}"
        if (packing := packing_clause(view, job)) is not None:
            sentence = f"{sentence} {packing[0].upper()}{packing[1:]}."
        if obstacle is not None:
            first = f"{job.title} waits because nothing can start now: {obstacle}."
            sentence = first if found.reason is WaitReason.NOT_REACHED else f"{first} After that: {sentence}"
        left_behind = self._may_still_run(job.id)
        if left_behind is not None:
            sentence += f" {left_behind[0].upper()}{left_behind[1:]}."
        answer = Explanation(
            job.id,
            job.phase,
            sentence,
            position=found.position,
            expected_start=found.expected_start if obstacle is None else None,
            starts_now_with=found.starts_now_with if obstacle is None else None,
            waited=waited,
            expected_start_is=found.certainty if obstacle is None else None,
            eviction=job.eviction,
            evictions=job.evictions,
            lost_s=job.lost_s,
            makes_room=found.makes_room,
            obstacle=obstacle,
            predicted=predicted,
        )
        return in_wall_time(answer, self._clock)

    def _not_waiting(self, view: View, job: Job, now: float, waited: tuple[WaitPart, ...]) -> Explanation:
        """Explain a job that does not wait. For a job that is stopped to make room, tell when it will continue."""
        allocation = view.allocations.get(job.allocation_id or "")
        remarks = () if job.phase.terminal else (self._trouble(job.allocation_id or ""), self._may_still_run(job.id))
        again = ExpectedStart()
        if job.phase is Phase.STOPPING and job.stop_reason is Phase.PENDING:
            again = expected_starts(view, now, [job.id], planner=self._planner)[job.id]
        return Explanation(
            job.id,
            job.phase,
            "; ".join([ended_sentence(job, now), *filter(None, (packing_clause(view, job), *remarks))]),
            expected_start=again.start_at,
            expected_start_is=again.certainty,
            holds=None if allocation is None else holding(view, allocation),
            enforcement=None if allocation is None else allocation.enforcement,
            waited=waited,
            eviction=job.eviction,
            evictions=job.evictions,
            lost_s=job.lost_s,
        )

    def _array(self, array_id: str, elements: Sequence[Job], audience: Audience, *, admin: bool) -> Explanation:
        """Count the elements by phase, and explain the first waiting one."""
        counts = Counter(job.phase for job in elements)
        words = [f"{counts[phase]} {_standing(phase)}" for phase in Phase if counts[phase]]
        counted = f"array {array_id} has {count_of(len(elements), 'element')}: {', '.join(words)}"
        unlike = [job for job in elements if job.phase is not Phase.SUCCEEDED]
        order = (Phase.PENDING, Phase.RUNNING)
        chief = min(unlike or elements, key=lambda job: (*(job.phase is not phase for phase in order), job.sequence))
        answer = self.of(chief.id, audience, admin=admin)
        if chief.phase is Phase.PENDING:
            return replace(answer, id=array_id, reason=f"{counted}. Next, {chief.id}: {answer.reason}")
        return replace(answer, id=array_id, reason=counted, waited=())

    def with_log_end(self, job_id: str, caller: Caller, audience: Audience = Audience.COMMAND_LINE) -> Explanation:
        """Explain a job as `of` does. For callers who may read the log, add why it failed and how much of the log is
        missing.

        It may take as long as the job's node needs to read the end of the log. Raises NotFound.
        """
        explanation = self.of(job_id, audience)
        job = self._ledger.find_job(job_id) if explanation.phase.terminal else None
        if job is None or not job.attempts or not can_read_log(caller, job):
            return explanation
        found = self._log_ends.of(job, audience)
        diagnosis = None if found is None else found.line
        return replace(explanation, diagnosis=diagnosis, log_missing_bytes=self._log_ends.missing_bytes(job) or None)


def _standing(phase: Phase) -> str:
    return "waiting" if phase is Phase.PENDING else phase.value.lower().replace("_", " ")
