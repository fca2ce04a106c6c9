"""Sharing time: who makes room after a quantum, and who is left alone."""

from dataclasses import replace

from corral.core.model.fact import AllocationEnded, JobChanged, SiteArranged
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.queues.queue import Limits, Pool, Quota
from corral.core.model.view import View
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import POLICIES
from tests.core.scheduling.lab import H100, T0, box, job, observed, started, submitted

LAS = POLICIES["las"]
HOUR = 3600.0


def running(*jobs: Job, gpus: int = 1) -> View:
    view = View().advance(observed(box("a", gpus), box("h", 1, model=H100)) + submitted(*jobs))
    for start in Planner(view, policy=LAS).plan(T0).starts:
        view = view.advance(started(start))
    return view


def evictions(view: View, now: float) -> list[tuple[str, str]]:
    return [(one.job_id, one.for_job_id) for one in Planner(view, policy=LAS).plan(now).evictions]


def test_after_its_quantum_the_most_served_makes_room_for_the_least_served() -> None:
    view = running(job(1, 2), gpus=2).advance(submitted(job(2, 2, models=("A100",))))
    assert evictions(view, T0 + HOUR - 1) == []
    assert evictions(view, T0 + HOUR) == [("1", "2")]


def test_one_whose_devices_nobody_takes_stays() -> None:
    view = running(job(1, 1, models=("A100",)), job(2, 1, models=("H100",)))
    view = view.advance(submitted(job(3, 1, models=("H100",))))
    assert evictions(view, T0 + HOUR) == [("2", "3")]


def test_a_job_with_devices_alone_and_nobody_waiting_runs_on() -> None:
    assert evictions(running(job(1, 1)), T0 + 10 * HOUR) == []


def test_what_was_evicted_goes_back_to_its_place_by_what_it_was_served() -> None:
    view = running(job(1, 1, models=("A100",))).advance(submitted(job(2, 1, models=("A100",))))
    at = T0 + HOUR
    view = view.advance(
        [
            JobChanged("1", {"phase": Phase.PENDING, "allocation_id": None}, at=at, by="test"),
            AllocationEnded("1.1", "1", at=at, by="test"),
        ]
    )
    assert view.served == {"1": HOUR}
    assert [start.job_id for start in Planner(view, policy=LAS).plan(at).starts] == ["2"]


def test_a_job_moves_to_a_faster_model_when_one_is_free() -> None:
    slow_first = job(1, 1, speeds=(("A100", 1.0), ("H100", 2.0)))
    view = View().advance(observed(box("a", 1)) + submitted(slow_first))
    view = view.advance(started(Planner(view, policy=LAS).plan(T0).starts[0]))
    view = view.advance(observed(box("h", 1, model=H100)) + submitted(job(2, 1, models=("A100",))))
    assert evictions(view, T0 + HOUR) == [("1", "2")]


def test_nobody_makes_room_for_one_whom_a_quota_bars() -> None:
    """Bob's only GPU is not up for turns yet."""
    fresh = job(2, 1, models=("H100",), user="bob")
    view = replace(running(job(1, 1, models=("A100",))), limits=Limits(of_user=Quota(devices=1)))
    view = view.advance(submitted(fresh))
    view = view.advance(started(Planner(view, policy=LAS).plan(T0 + 1).starts[0], at=T0 + HOUR / 2, user="bob"))
    assert evictions(view.advance(submitted(job(3, 1, user="bob", models=("A100",)))), T0 + HOUR) == []


def test_turns_are_taken_within_a_quota_too() -> None:
    view = replace(running(job(1, 1, models=("A100",))), limits=Limits(of_user=Quota(devices=1)))
    assert evictions(view.advance(submitted(job(2, 1, models=("H100",)))), T0 + HOUR) == [("1", "2")]


def test_nobody_makes_room_for_one_to_whom_the_place_is_only_lent() -> None:
    pool = Pool("own", ("GPU-a-0",), users=("alice",), lends=True)
    before = running(job(1, 1, models=("A100",)))
    view = before.advance([SiteArranged(tuple(before.queues.values()), pools=(pool,))])
    assert evictions(view.advance(submitted(job(2, 1, user="bob", models=("A100",)))), T0 + HOUR) == []
