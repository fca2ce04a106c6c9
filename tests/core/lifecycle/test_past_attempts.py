"""Each attempt to run a job is told from the facts about it: when, what it had, how it ended and why."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from corral.core.lifecycle import commands, ending, starting, stopping
from corral.core.lifecycle.past_attempts import attempts_of
from corral.core.model.fact import Fact, JobChanged
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.job_patch import patched
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.attempt import AttemptEnd, RecordedAttempt
from corral.core.model.runs.launch import LaunchPhase, LaunchReport
from corral.core.model.view import View
from tests.core.control.strategies import box, job, with_jobs
from tests.core.lifecycle.taken_steps import BACKOFF, URGENT, exited, place

Step = Callable[[View, Job, float], Sequence[Fact]]


class Life:
    """Job 1 and the facts about it, a step each second from 200.0 on."""

    def __init__(self, retries: int = 0, time_limit_s: float | None = None) -> None:
        first = job(1, retries=retries)
        self.job = replace(first, spec=replace(first.spec, time_limit_s=time_limit_s))
        self.view = with_jobs(box(), self.job, job(2))
        self.facts: list[Fact] = []
        self.at = 199.0

    def step(self, step: Step) -> None:
        self.at += 1.0
        taken = step(self.view, self.job, self.at)
        self.view = self.view.advance(taken)
        self.facts += [fact for fact in taken if fact.about == "1"]
        for fact in taken:
            if isinstance(fact, JobChanged) and fact.about == "1":
                self.job = patched(self.job, fact.changes)
        # One that has ended is in no view.
        self.job = self.view.jobs.get("1") or self.job

    def start(self) -> None:
        self.step(lambda _, one, at: starting.start(one, place(0), by="test", at=at))

    def run(self) -> None:
        self.start()
        self.step(lambda view, one, at: starting.running(view, one, at, by="test", at=at))

    def end(self, report: LaunchReport) -> None:
        self.step(lambda view, one, at: ending.ended(view, one, report, by="test", at=at, backoff=BACKOFF))

    def last(self) -> RecordedAttempt:
        return attempts_of(self.facts)[-1]


def fails(life: Life) -> None:
    life.end(exited("1", 3))


def is_killed(life: Life) -> None:
    life.end(LaunchReport("1.1", LaunchPhase.EXITED, exit_code=137, signal=9, ending=Phase.FAILED))


def is_cancelled(life: Life) -> None:
    life.step(lambda view, one, at: commands.cancel(view, one, by="bob", at=at))
    life.end(exited("1", 143, Phase.CANCELLED))


def takes_too_long(life: Life) -> None:
    life.end(exited("1", 143, Phase.TIMED_OUT))


def is_lost(life: Life) -> None:
    life.end(LaunchReport("1.1", LaunchPhase.DEAD, reason="node b is gone"))


def is_preempted(life: Life) -> None:
    life.step(lambda _, one, at: stopping.evict(one, URGENT, by="test", at=at))
    life.end(exited("1", 143, Phase.CANCELLED))


def is_requeued(life: Life) -> None:
    life.step(lambda view, one, at: commands.requeue(view, one, by="alice", at=at))
    life.end(exited("1", 143, Phase.CANCELLED))


@pytest.mark.parametrize(
    ("ends", "how", "reason"),
    [
        (lambda life: life.end(exited("1", 0)), AttemptEnd.SUCCEEDED, "succeeded"),
        (fails, AttemptEnd.FAILED, "failed with exit code 3"),
        (is_killed, AttemptEnd.FAILED, "failed by signal 9 (SIGKILL)"),
        (is_cancelled, AttemptEnd.CANCELLED, "cancelled by bob"),
        (takes_too_long, AttemptEnd.TIMED_OUT, "timed out: its time limit of 1m"),
        (is_lost, AttemptEnd.LOST, "lost: node b is gone"),
        (is_preempted, AttemptEnd.PREEMPTED, "preempted for job 2: taken back"),
        (is_requeued, AttemptEnd.REQUEUED, "requeued by alice"),
    ],
)
def test_an_attempt_says_how_and_why_it_ended(ends: Callable[[Life], None], how: AttemptEnd, reason: str) -> None:
    life = Life(time_limit_s=60.0)
    life.run()
    assert (life.last().ended_as, life.last().ended_at, life.last().started_at) == (None, None, 201.0)
    ends(life)
    assert (life.last().ended_as, life.last().reason) == (how, reason)
    assert life.last().ended_at in (202.0, life.at)


def test_one_that_never_ran_is_an_attempt_with_what_was_in_the_way() -> None:
    life = Life()
    life.start()
    life.step(lambda view, one, at: starting.launch_failed(view, one, "no room", by="test", at=at, backoff=BACKOFF))
    last = life.last()
    assert (last.ended_as, last.reason, last.started_at, last.ended_at) == (
        AttemptEnd.NOT_LAUNCHED, "not launched: no room", None, 201.0,
    )  # fmt: skip


def test_attempts_that_failed_are_told_beside_the_one_that_succeeded() -> None:
    life = Life(retries=1)
    life.run()
    fails(life)
    life.run()
    life.end(exited("1", 0))
    told = [(one.allocation.id, one.allocation.attempt, one.ended_as, one.exit_code) for one in attempts_of(life.facts)]
    assert told == [
        ("1.1", 1, AttemptEnd.FAILED, 3),
        ("1.2", 2, AttemptEnd.SUCCEEDED, 0),
    ]


def test_who_had_an_ended_job_run_again_is_told() -> None:
    life = Life()
    life.run()
    fails(life)
    life.step(lambda view, one, at: commands.requeue(view, one, by="bob", at=at))
    assert life.last().reason == "failed with exit code 3; requeued by bob"
    life.run()
    assert [one.ended_as for one in attempts_of(life.facts)] == [AttemptEnd.FAILED, None]


def test_a_wait_and_its_end_are_no_attempt() -> None:
    life = Life()
    life.step(lambda _, one, at: commands.hold(one, True, by="alice", at=at))
    life.step(lambda view, one, at: commands.cancel(view, one, by="alice", at=at))
    assert attempts_of(life.facts) == ()


def test_the_end_of_a_journal_tells_of_the_attempts_that_begin_in_it() -> None:
    life = Life(retries=3)
    for _ in range(3):
        life.run()
        fails(life)
    whole = attempts_of(life.facts)
    assert len(whole) == 3
    for start in range(len(life.facts)):
        told = attempts_of(life.facts[start:])
        assert told == whole[len(whole) - len(told) :]
