"""The attempts to run a job, reconstructed from its facts in the journal."""

from collections.abc import Iterable
from dataclasses import replace

from corral.core.model.fact import (
    AllocationEnded,
    AllocationMade,
    DevicesExchanged,
    Fact,
    JobChanged,
    JobRequeued,
    ServerPart,
)
from corral.core.model.jobs.job_patch import JobPatch
from corral.core.model.jobs.phase import TERMINAL_PHASES, Phase
from corral.core.model.placing.eviction import Eviction, EvictionRule
from corral.core.model.runs.attempt import AttemptEnd, RecordedAttempt
from corral.core.model.runs.exit_code import exit_code_in_words, signal_name


def attempts_of(facts: Iterable[Fact]) -> tuple[RecordedAttempt, ...]:
    """Return every attempt that begins among these facts about one job, in the journal's order, oldest first.

    Facts before the first allocation are skipped, so the end of a long journal suffices.
    """
    teller = _Teller()
    for fact in facts:
        teller.take(fact)
    return tuple(teller.attempts)


class _Teller:
    """Builds the attempts from one fact after another. `_live` is whether the last attempt holds devices."""

    def __init__(self) -> None:
        self.attempts: list[RecordedAttempt] = []
        self._live = False
        self._began = JobPatch()
        self._stop = JobPatch()

    def take(self, fact: Fact) -> None:
        match fact:
            case AllocationMade(allocation=allocation):
                # Simulated work records its start before its allocation.
                self.attempts.append(RecordedAttempt(allocation, self._began.get("started_at")))
                self._live, self._stop = True, JobPatch()
            case JobChanged(changes=changes) if changes.get("allocation_id") is not None:
                self._began = changes
            case JobChanged(changes=changes) if self._live:
                self._change(changes, fact.at)
            case DevicesExchanged(allocation=allocation) if self._live:
                self._amend(replace(self.attempts[-1], allocation=allocation))
            case AllocationEnded(allocation_id=allocation_id, members=members) if self._live:
                if allocation_id == self.attempts[-1].allocation.id:
                    last = self.attempts[-1]
                    ended_at = fact.at if last.ended_at is None else last.ended_at
                    self._amend(replace(last, ended_at=ended_at, members=members))
                    self._live = False
            case JobRequeued() if self.attempts:
                said = "requeued" if fact.by == ServerPart.UNRECORDED else f"requeued by {fact.by}"
                self._amend(replace(self.attempts[-1], reason=_joined(self.attempts[-1].reason, said)))

    def _amend(self, attempt: RecordedAttempt) -> None:
        self.attempts[-1] = attempt

    def _change(self, changes: JobPatch, at: float) -> None:
        last, phase = self.attempts[-1], changes.get("phase")
        if (started_at := changes.get("started_at")) is not None:
            last = replace(last, started_at=started_at)
        if phase is Phase.STOPPING or (phase is None and "stop_reason" in changes):
            self._stop = {**self._stop, **changes}
        elif phase in TERMINAL_PHASES:
            last = _ended(last, phase, changes, at)
        elif phase is Phase.PENDING and last.ended_as is None:
            last = _sent_back(last, self._stop, changes, at)
        self._amend(last)


def _ended(attempt: RecordedAttempt, phase: Phase, changes: JobPatch, at: float) -> RecordedAttempt:
    """Return the attempt after its job's change to a terminal phase."""
    ended_at = changes.get("ended_at")
    exit_code, signal = changes.get("exit_code"), changes.get("signal")
    return replace(
        attempt,
        ended_at=at if ended_at is None else ended_at,
        ended_as=AttemptEnd(phase.value.lower()),
        reason=_how(phase, exit_code, signal, changes.get("reason")),
        exit_code=exit_code,
        signal=signal,
    )


def _sent_back(attempt: RecordedAttempt, stop: JobPatch, changes: JobPatch, at: float) -> RecordedAttempt:
    """Return the attempt after its job's return to the queue, with the reason of the stop, if there was one."""
    eviction, reason = stop.get("eviction"), stop.get("reason")
    if eviction is not None and eviction.rule is EvictionRule.FAULT:
        how, said = AttemptEnd.FAULT, f"stopped: {eviction.reason}"
    elif eviction is not None:
        how, said = AttemptEnd.PREEMPTED, _for_whom(eviction)
    elif stop.get("stop_reason") is Phase.PENDING:
        how, said = AttemptEnd.REQUEUED, reason or "requeued"
    else:
        how, said = AttemptEnd.NOT_LAUNCHED, _joined("not launched", changes.get("reason"))
    return replace(attempt, ended_at=at, ended_as=how, reason=said)


def _for_whom(eviction: Eviction) -> str:
    whom = "" if eviction.for_job_id is None else f" for job {eviction.for_job_id}"
    return f"preempted{whom}: {eviction.reason}"


def _how(phase: Phase, exit_code: int | None, signal: int | None, reason: str | None) -> str:
    word = phase.value.lower().replace("_", " ")
    if reason is not None and reason.startswith(word):
        return reason
    if phase is Phase.FAILED and signal is not None:
        word += f" by signal {signal} ({signal_name(signal)})"
    elif phase is Phase.FAILED and exit_code is not None:
        word += f" with {exit_code_in_words(exit_code, brief=True)}"
    return _joined(word, reason)


def _joined(first: str | None, second: str | None) -> str:
    separator = "; " if second is not None and second.startswith("requeued") else ": "
    return separator.join(part for part in (first, second) if part)
