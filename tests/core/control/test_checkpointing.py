"""A job that makes room is told first, and has its time."""

from dataclasses import replace
from queue import Queue

import pytest

from corral.clock import ManualClock
from corral.core.control.launching.attempts import Attempt
from corral.core.control.launching.checkpointing import Checkpoints
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.launch import Launch
from tests.core.control.strategies import job

PATIENCE_S = 60.0


def evicted(stop_reason: Phase = Phase.PENDING, signal: str | None = "USR1") -> Job:
    base = job(1)
    spec = replace(base.spec, checkpoint_signal=signal, checkpoint_grace_s=0.05)
    return replace(base, spec=spec, phase=Phase.STOPPING, stop_reason=stop_reason)


def attempt(members: int = 1) -> Attempt:
    return Attempt("1.1", "1", tuple(Launch("1.1", job(1), (), rank=rank) for rank in range(members)))


def test_an_evicted_job_is_told_before_it_is_stopped_and_has_its_time() -> None:
    clock, again, signals = ManualClock(), Queue[str](), list[str]()
    checkpoints, tried = Checkpoints(clock, again.put), attempt()
    assert not checkpoints.may_end(evicted(), tried, 0, signals.append)
    assert again.get(timeout=PATIENCE_S) == "1.1"
    assert not checkpoints.may_end(evicted(), tried, 0, signals.append)
    clock.advance(0.05)
    assert checkpoints.may_end(evicted(), tried, 0, signals.append)
    assert signals == ["USR1"]


def test_every_member_of_a_gang_is_told_once_and_their_time_is_over_together() -> None:
    clock, signals = ManualClock(), list[str]()
    checkpoints, tried = Checkpoints(clock, lambda _: None), attempt(members=2)
    for rank in (0, 1, 0, 1):
        assert not checkpoints.may_end(evicted(), tried, rank, signals.append)
    clock.advance(0.05)
    assert all(checkpoints.may_end(evicted(), tried, rank, signals.append) for rank in (0, 1))
    assert signals == ["USR1", "USR1"]


@pytest.mark.parametrize(("word", "told"), [("B:USR1", [["B:USR1"], []]), ("S:USR1", [["S:USR1"], ["S:USR1"]])])
def test_what_is_for_the_main_process_goes_to_the_first_member_alone_and_all_have_their_time(
    word: str, told: list[list[str]]
) -> None:
    checkpoints, tried = Checkpoints(ManualClock(), lambda _: None), attempt(members=2)
    signals: list[list[str]] = [[], []]
    for rank in (0, 1):
        assert not checkpoints.may_end(evicted(signal=word), tried, rank, signals[rank].append)
    assert signals == told


@pytest.mark.parametrize("victim", [evicted(stop_reason=Phase.CANCELLED), evicted(signal=None)])
def test_who_was_cancelled_or_asked_for_no_signal_is_stopped_at_once(victim: Job) -> None:
    signals = list[str]()
    assert Checkpoints(ManualClock(), lambda _: None).may_end(victim, attempt(), 0, signals.append)
    assert signals == []
