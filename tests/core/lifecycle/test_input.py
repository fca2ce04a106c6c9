"""Input is given once, and somebody has to send it."""

from dataclasses import replace

import pytest

from corral.core.lifecycle import commands, ending, stopping
from corral.core.lifecycle import input as input_steps
from corral.core.model.errors import Conflict
from corral.core.model.fact import JobChanged
from corral.core.model.jobs.input import TerminalSize
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.view import View
from tests.core.control.strategies import box, job, with_jobs
from tests.core.lifecycle.taken_steps import BACKOFF, URGENT, exited, phases, started


def with_stdin(number: int, *, taken: bool, retries: int = 3) -> Job:
    plain = job(number, retries=retries)
    return replace(plain, spec=replace(plain.spec, stdin=True), input_taken=taken)


def with_terminal(number: int, retries: int = 3) -> Job:
    plain = job(number, retries=retries)
    return replace(plain, spec=replace(plain.spec, terminal=TerminalSize()))


def running(one: Job) -> View:
    return started(with_jobs(box(), one), "1", 0)


def test_that_input_was_taken_is_written_down_once() -> None:
    view = running(with_stdin(1, taken=False))
    (fact,) = input_steps.take(view.jobs["1"], by="alice", at=201.0)
    assert isinstance(fact, JobChanged)
    taken = view.advance([fact]).jobs["1"]
    assert taken.input_taken
    assert input_steps.take(taken, by="alice", at=202.0) == []


@pytest.mark.parametrize(
    ("one", "again"),
    [(with_stdin(1, taken=False), True), (with_stdin(1, taken=True), False), (with_terminal(1), False)],
)
def test_a_job_that_has_read_input_is_not_tried_again_after_a_failure(one: Job, again: bool) -> None:
    view = running(one)
    facts = ending.ended(view, view.jobs["1"], exited("1", code=3), by="test", at=203.0, backoff=BACKOFF)
    assert phases(facts, "1") == [Phase.FAILED, Phase.PENDING] if again else [Phase.FAILED]


@pytest.mark.parametrize(
    ("one", "phase"), [(with_stdin(1, taken=False), Phase.PENDING), (with_stdin(1, taken=True), Phase.FAILED)]
)
def test_a_job_that_has_read_input_and_makes_room_does_not_go_back_to_its_queue(one: Job, phase: Phase) -> None:
    view = running(one)
    view = view.advance(stopping.evict(view.jobs["1"], URGENT, by="test", at=202.0))
    report = exited("1", code=143, ending=Phase.CANCELLED)
    facts = ending.ended(view, view.jobs["1"], report, by="test", at=203.0, backoff=BACKOFF)
    assert phases(facts, "1") == [phase]
    if phase is Phase.FAILED:
        (reason,) = (fact.changes.get("reason") for fact in facts if isinstance(fact, JobChanged))
        why = "it does not run again, because the input that it has read cannot be given twice"
        assert reason == f"taken back; {why}"


def test_a_job_whose_input_is_gone_is_not_requeued() -> None:
    view = running(with_stdin(1, taken=True))
    with pytest.raises(Conflict, match="the input that it has read cannot be given twice"):
        commands.requeue(view, view.jobs["1"], by="alice", at=203.0)
    with pytest.raises(Conflict, match="took its input from a command that has ended"):
        commands.requeue(view, replace(view.jobs["1"], phase=Phase.FAILED, input_taken=False), by="alice", at=203.0)
    fresh = running(with_stdin(1, taken=False))
    assert commands.requeue(fresh, fresh.jobs["1"], by="alice", at=203.0)


def test_a_job_that_was_interrupted_is_not_tried_again() -> None:
    view = running(job(1, retries=3))
    facts = ending.ended(view, view.jobs["1"], exited("1", code=130), by="test", at=203.0, backoff=BACKOFF)
    assert phases(facts, "1") == [Phase.FAILED]


def test_a_job_to_which_nobody_sends_input_ends_wherever_it_stands() -> None:
    waiting = with_jobs(box(), with_terminal(1), replace(job(2), waits_for=("1",)))
    facts = input_steps.give_up(waiting, waiting.jobs["1"], "gone", by="corral", at=201.0)
    assert phases(facts, "1") == [Phase.CANCELLED]
    live = started(waiting, "1", 0)
    (stop,) = input_steps.give_up(live, live.jobs["1"], "gone", by="corral", at=201.0)
    stopped = live.advance([stop]).jobs["1"]
    assert (stopped.phase, stopped.stop_reason, stopped.reason) == (Phase.STOPPING, Phase.CANCELLED, "gone")
    assert input_steps.give_up(live.advance([stop]), stopped, "gone", by="corral", at=202.0) == []
