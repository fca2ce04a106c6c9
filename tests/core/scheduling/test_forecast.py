"""When waiting jobs will start, and what that depends on."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.model.fact import JobChanged, JobRequeued
from corral.core.model.jobs.job import Job, Request
from corral.core.model.jobs.job_patch import JobPatch
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.certainty import Certainty
from corral.core.model.placing.eviction import Eviction, EvictionRule
from corral.core.model.placing.plan import Plan, WaitReason
from corral.core.model.queues.queue import Limits, Project, Queue, Quota
from corral.core.model.view import View
from corral.core.scheduling import forecast
from corral.core.scheduling.explaining.why import WaitIndex
from corral.core.scheduling.forecast import ExpectedStart, expected_starts, foresee
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import Backfill, policy_named
from corral.core.scheduling.promising.run_time import run_estimate_s
from corral.sim.engine import Engine, SimulatedWork, inventory
from tests.core.scheduling.lab import T0, box, job, observed, ran, started, submitted, view_of


def starts(view: View, *ids: str) -> dict[str, tuple[float | None, str | None]]:
    """When each starts, or what that depends on."""
    return {job_id: (one.start_at, one.depends_on) for job_id, one in expected_starts(view, T0, ids).items()}


def listed(view: View, job_id: str) -> Certainty | None:
    """What a listing says that the job's start is, which looks at one plan alone."""
    return WaitIndex(Planner(view).plan(T0), view).certainty(job_id, T0)


def busy(*limits: float | None, gpus: int = 2) -> View:
    """A box on which a one-GPU job of each limit runs."""
    jobs = [job(n, time_limit_s=limit) for n, limit in enumerate(limits, start=1)]
    view = view_of(observed(box(gpus=gpus)) + submitted(*jobs))
    for start in Planner(view).plan(T0).starts:
        view = view.advance(started(start))
    return view


def test_jobs_follow_each_other_as_their_limits_end() -> None:
    view = busy(100, 300).advance(submitted(job(3, time_limit_s=50), job(4, 2), job(5)))
    assert starts(view, "3", "4", "5") == {
        "3": (T0 + 100, None),
        "4": (T0 + 300, None),
        "5": (None, "4"),
    }


def test_a_job_without_an_end_is_named_as_what_the_start_depends_on() -> None:
    view = busy(None, 300).advance(submitted(job(3, 2)))
    assert starts(view, "3") == {"3": (None, "1")}


def test_a_dependant_starts_after_its_parents_estimated_end() -> None:
    view = busy(100).advance(submitted(job(2, waits_for=("1",))))
    assert starts(view, "2") == {"2": (T0 + 100, None)}


def test_starts_and_failures_that_are_waited_for_are_foreseen_as_far_as_they_can_be() -> None:
    begun = job(3, after=("start:2",), waits_for=("2",))
    ended = job(4, after=("any:2?notok:1",), waits_for=("1", "2"))
    failed = job(5, after=("notok:1",), waits_for=("1",))
    view = busy(100, gpus=2).advance(submitted(job(2, 2, time_limit_s=50), begun, ended, failed))
    assert starts(view, "2", "3", "4", "5") == {
        "2": (T0 + 100, None),
        "3": (T0 + 150, None),
        "4": (T0 + 150, None),
        "5": (None, None),
    }


def test_a_held_job_has_no_start_to_tell() -> None:
    view = busy().advance(submitted(job(1, held=True)))
    assert starts(view, "1") == {"1": (None, None)}


def test_what_lies_too_far_ahead_is_unforeseen() -> None:
    view = busy(10, gpus=1).advance(submitted(*(job(n, time_limit_s=10) for n in range(2, 9)), job(9, held=True)))
    unforeseen, on_hold = ExpectedStart(certainty=Certainty.UNFORESEEN), ExpectedStart()
    assert expected_starts(view, T0, ["8", "9"], looks=6) == {"8": unforeseen, "9": on_hold}
    foresight = foresee(view, T0, looks=6)
    assert not foresight.complete
    assert (foresight.of("8", held=False), foresight.of("9", held=True)) == (unforeseen, on_hold)


def test_all_are_foreseen_as_each_is_alone() -> None:
    view = busy(100, 300).advance(submitted(job(3, time_limit_s=50), job(4, 2), job(5), job(6, held=True)))
    foresight = foresee(view, T0)
    assert foresight.complete
    for job_id in ("3", "4", "5", "6"):
        alone = expected_starts(view, T0, [job_id])[job_id]
        assert foresight.of(job_id, held=job_id == "6") == replace(alone, depends_on=None)


def test_where_every_plan_promises_much_a_forecast_is_of_few_plans() -> None:
    """A plan with 500 promises takes most of a second, and a forecast that counted jobs alone made six of them."""

    class CountingPlanner(Planner):
        plans = 0

        def plan(self, now: float) -> Plan:
            CountingPlanner.plans += 1
            return super().plan(now)

    view = busy(100, 300).advance(submitted(*(job(n, time_limit_s=1000 + n) for n in range(3, 403))))
    conservative = replace(policy_named("fcfs"), backfill=Backfill.CONSERVATIVE)
    foresight = foresee(view, T0, planner=lambda view: CountingPlanner(view, policy=conservative))
    assert CountingPlanner.plans <= 2
    assert not foresight.complete
    assert foresight.starts["3"].start_at == T0 + 100


def test_foreseeing_many_never_asks_what_each_could_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """That takes a look at every device for every job: with 10,000 jobs and 512 devices, 19 s."""
    asked: list[Request] = []

    def in_the_way(view: View, request: Request, closed_pools: Sequence[str]) -> list[Job]:
        asked.append(request)
        return []

    monkeypatch.setattr(forecast, "jobs_in_the_way", in_the_way)
    view = busy(None, gpus=1).advance(submitted(*(job(n) for n in range(2, 102))))
    assert not foresee(view, T0).starts
    assert asked == []
    expected_starts(view, T0, ["2"])
    assert len(asked) == 1


def test_the_past_of_a_name_stands_in_for_a_missing_limit() -> None:
    view = view_of(observed(box(gpus=1)))
    nightly = job(1, name="nightly")
    view = replace(view, durations=ran(nightly, 50.0, 70.0)).advance(submitted(nightly, job(2)))
    view = view.advance(started(Planner(view).plan(T0).starts[0]))
    assert starts(view, "2") == {"2": (T0 + 70, None)}


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 50)), min_size=1, max_size=15))
def test_with_exact_limits_and_no_newcomers_everybody_starts_as_foreseen(shapes: list[tuple[int, int]]) -> None:
    jobs = [job(n, gpus, time_limit_s=float(run), submitted_at=T0) for n, (gpus, run) in enumerate(shapes, start=1)]
    view = view_of(observed(box(gpus=4)) + submitted(*jobs))
    foreseen = starts(view, *(one.id for one in jobs))
    planner = Planner()
    planner.advance(inventory([box(gpus=4)]))
    works = [SimulatedWork(one, one.spec.time_limit_s or 0.0) for one in jobs]
    Engine(planner).run(works)
    assert {work.job.id: (work.started_at, None) for work in works} == foreseen


def test_the_plan_says_why_and_foresight_says_when() -> None:
    view = busy(100, 100).advance(submitted(job(3, 2, time_limit_s=10), job(4, 1, time_limit_s=200)))
    plan = Planner(view).plan(T0)
    assert [(wait.job_id, wait.reason, wait.expected_start) for wait in plan.waits] == [
        ("3", WaitReason.RESOURCES, T0 + 100),
        ("4", WaitReason.RESOURCES, None),
    ]
    assert starts(view, "4") == {"4": (T0 + 110, None)}


def test_whoever_makes_room_is_put_back_and_foreseen_again() -> None:
    queues = {"default": Queue("default", preempts=True)}
    view = View(queues=queues).advance(observed(box(gpus=1)) + submitted(job(1, priority=9, time_limit_s=100)))
    view = view.advance(started(Planner(view).plan(T0).starts[0]))
    view = view.advance(submitted(job(2, priority=1, time_limit_s=30), job(3, priority=9, time_limit_s=5)))
    assert starts(view, "2", "3") == {"2": (T0, None), "3": (T0 + 130, None)}


def test_a_job_behind_two_that_end_together_starts_then() -> None:
    view = busy(100, 100).advance(submitted(job(3, waits_for=("1", "2"))))
    assert starts(view, "3") == {"3": (T0 + 100, None)}


HALVES = {
    "lab": Queue("lab", quota=Quota(share_milli=2000)),
    **{name: Queue(name, parent="lab", quota=Quota(share_milli=1000, borrow_milli=1000)) for name in ("a", "b")},
}
TWO_DAYS_S = 48 * 3600.0


def lending_pools(queues: Mapping[str, Queue] = HALVES, **options: Any) -> View:
    """Two GPUs of which queue a holds its own and that of queue b, since T0, each for two days."""
    jobs = [job(n, queue="a", time_limit_s=TWO_DAYS_S, **options) for n in (1, 2)]
    view = View(queues=queues).advance(observed(box(gpus=2)) + submitted(*jobs))
    for start in Planner(view).plan(T0).starts:
        view = view.advance(started(start))
    return view


def spared(**options: Any) -> View:
    """The same, where the jobs of queue a are spared for a minute."""
    return lending_pools({**HALVES, "a": replace(HALVES["a"], spared_s=60.0)}, **options)


def test_a_lender_is_expected_to_take_back_as_soon_as_the_borrower_is_spared_no_longer() -> None:
    view = spared().advance(submitted(job(3, queue="b", time_limit_s=3600.0)))
    told = expected_starts(view, T0 + 1, ["3"])["3"]
    assert told.start_at == pytest.approx(T0 + 60, abs=0.01)
    assert told.certainty is Certainty.EXPECTATION
    (eviction,) = told.evictions
    assert (eviction.rule, eviction.lender, eviction.for_job_id) == (EvictionRule.QUEUE_RECLAIM, "b", "3")


def test_more_urgent_work_is_expected_to_start_once_its_victim_is_spared_no_longer() -> None:
    queues = {"default": Queue("default", preempts=True, spared_s=60.0)}
    view = View(queues=queues).advance(observed(box(gpus=1)) + submitted(job(1, priority=9, time_limit_s=TWO_DAYS_S)))
    view = view.advance(started(Planner(view).plan(T0).starts[0]))
    view = view.advance(submitted(job(2, priority=1, time_limit_s=30.0)))
    assert expected_starts(view, T0 + 1, ["2"])["2"].start_at == pytest.approx(T0 + 60, abs=0.01)


def test_a_job_is_expected_to_start_when_another_has_had_its_turn() -> None:
    queues = {"default": Queue("default", policy="las")}
    view = View(queues=queues).advance(observed(box(gpus=1)) + submitted(job(1, time_limit_s=TWO_DAYS_S)))
    view = view.advance(started(Planner(view).plan(T0).starts[0]))
    view = view.advance(submitted(job(2, time_limit_s=30.0)))
    told = expected_starts(view, T0 + 1, ["2"])["2"]
    assert told.start_at == pytest.approx(T0 + 3600, abs=0.01)
    assert [eviction.rule for eviction in told.evictions] == [EvictionRule.TIME_SLICE]


def test_the_time_that_a_borrower_has_to_save_its_work_is_waited_for() -> None:
    saving = {"checkpoint_signal": "USR1", "checkpoint_grace_s": 120.0}
    view = spared(**saving).advance(submitted(job(3, queue="b", time_limit_s=3600.0)))
    assert expected_starts(view, T0 + 1, ["3"])["3"].start_at == pytest.approx(T0 + 180, abs=0.01)


def test_a_job_that_makes_room_is_told_when_it_goes_on() -> None:
    view = lending_pools().advance(submitted(job(3, queue="b", time_limit_s=600.0)))
    (eviction,) = Planner(view).plan(T0 + 5).evictions
    told = Eviction(eviction.rule, "3", eviction.reason, T0 + 5, f"{eviction.job_id}.1")
    changes: JobPatch = {"phase": Phase.STOPPING, "stop_reason": Phase.PENDING, "eviction": told}
    view = view.advance([JobChanged(eviction.job_id, changes, at=T0 + 5, by="test")])
    foreseen = expected_starts(view, T0 + 6, ["3", eviction.job_id])
    assert (foreseen["3"].start_at, foreseen["3"].at_once) == (T0 + 6, False)
    assert foreseen[eviction.job_id].start_at == T0 + 606


def test_a_reservation_is_a_promise_and_what_comes_of_estimates_an_expectation() -> None:
    view = busy(100, 100).advance(submitted(job(3, 2, time_limit_s=10), job(4, 1, time_limit_s=200)))
    told = expected_starts(view, T0, ["3", "4"])
    assert [(told[n].start_at, told[n].certainty) for n in ("3", "4")] == [
        (T0 + 100, Certainty.PROMISE),
        (T0 + 110, Certainty.EXPECTATION),
    ]


def test_where_ranks_move_while_jobs_wait_a_reservation_is_no_promise() -> None:
    view = replace(busy(100, 100), queues={"default": Queue("default", policy="fair-share")})
    told = expected_starts(view.advance(submitted(job(3, 2, time_limit_s=10))), T0, ["3"])["3"]
    assert (told.start_at, told.certainty) == (T0 + 100, Certainty.EXPECTATION)


def test_a_job_that_one_whom_a_quota_bars_will_pass_is_told_when_it_starts_in_truth() -> None:
    projects = {"p": Project("p", quota=Quota(devices=2))}
    view = View(projects=projects).advance(
        observed(box(gpus=3))
        + submitted(
            job(1, 1, project="p", time_limit_s=10, submitted_at=T0),
            job(2, 2, project="p", time_limit_s=20, submitted_at=T0),
            job(3, 3, time_limit_s=10, submitted_at=T0),
        )
    )
    told = expected_starts(view, T0, ["3"])["3"]
    assert (told.start_at, told.certainty) == (T0 + 30, Certainty.EXPECTATION)
    assert listed(view, "3") is Certainty.EXPECTATION


def test_where_another_queue_waits_too_a_reservation_is_no_promise() -> None:
    view = replace(busy(100, 100), queues={name: Queue(name) for name in ("default", "other")})
    view = view.advance(submitted(job(3, 2, time_limit_s=10)))
    assert listed(view, "3") is Certainty.PROMISE
    assert listed(view.advance(submitted(job(4, 2, time_limit_s=10, queue="other"))), "3") is Certainty.EXPECTATION


@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_whom_a_quota_may_come_to_bar_has_no_promise(backfill: str) -> None:
    """Job 4 starts on a GPU that job 3 leaves over, but not on a quota that it leaves over."""
    limits = Limits(of_user=Quota(devices=3))
    view = View(queues={"default": Queue("default", backfill=backfill)}, limits=limits)
    view = view.advance(observed(box(gpus=4)) + submitted(job(1, 2, user="bob", time_limit_s=100)))
    view = view.advance(started(Planner(view).plan(T0).starts[0]))
    view = view.advance(submitted(job(3, 3, time_limit_s=10), job(4, 1, time_limit_s=500)))
    told = expected_starts(view, T0, ["3"])["3"]
    assert (told.start_at, told.certainty) == (T0 + 500, Certainty.EXPECTATION)
    assert listed(view, "3") is Certainty.EXPECTATION


def test_a_reservation_that_stands_on_a_history_is_no_promise() -> None:
    view = busy(100, 100)
    nightly = replace(view.jobs["1"], spec=replace(view.jobs["1"].spec, name="nightly"))
    view = replace(view, durations=ran(nightly, 50.0)).advance([JobRequeued(nightly, at=T0, by="test")])
    told = expected_starts(view.advance(submitted(job(3, 1, time_limit_s=10))), T0, ["3"])["3"]
    assert (told.start_at, told.certainty) == (T0 + 50, Certainty.EXPECTATION)


def test_what_its_own_array_keeps_waiting_depends_on_the_array_and_on_nobody_else() -> None:
    others = job(1)
    elements = [job(2 + n, array_id="2", array_limit=1, array_index=n) for n in range(2)]
    view = view_of(observed(box(gpus=4)) + submitted(others, *elements))
    for start in Planner(view).plan(T0).starts:
        view = view.advance(started(start))
    assert starts(view, "3") == {"3": (None, "2")}


ROUND_S = (60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0)


def missed(seed: int, policy: str, *, late_s: float) -> int:
    """How many of 60 jobs of round time limits, which all end up to so much late, start over 10 s off what was told."""
    chance = random.Random(seed)
    jobs = [
        job(n, chance.choice((1, 1, 1, 2, 2, 4, 8)), time_limit_s=chance.choice(ROUND_S), submitted_at=T0)
        for n in range(1, 61)
    ]
    told = expected_starts(
        view_of(observed(box()) + submitted(*jobs)),
        T0,
        [one.id for one in jobs],
        planner=lambda view: Planner(view, policy=policy_named(policy)),
        looks=100_000,
    )
    planner = Planner(policy=policy_named(policy))
    planner.advance(inventory([box()]))
    works = [SimulatedWork(one, (one.spec.time_limit_s or 0.0) + chance.uniform(late_s / 3, late_s)) for one in jobs]
    Engine(planner).run(works)
    return sum(abs((work.started_at or 0.0) - (told[work.job.id].start_at or 0.0)) > 10 for work in works)


@pytest.mark.parametrize("policy", ["priority", "fcfs"])
@pytest.mark.parametrize("seed", [0, 1])
def test_starts_are_as_foreseen_though_what_ends_together_ends_one_after_the_other(policy: str, seed: int) -> None:
    assert missed(seed, policy, late_s=0.03) == 0


def test_one_run_of_the_same_name_stands_in_for_a_limit_and_other_jobs_of_the_user_only_in_number() -> None:
    nightly, new = job(1, name="nightly"), job(2, name="new")
    assert run_estimate_s(nightly, ran(nightly, 50.0)) == 50.0
    assert run_estimate_s(new, ran(nightly, *[50.0] * 8)) is None
    assert run_estimate_s(new, ran(nightly, *[50.0] * 9)) == 50.0
    assert run_estimate_s(replace(new, spec=replace(new.spec, command=("other",))), ran(nightly, *[50.0] * 9)) == 50.0


def test_a_limit_is_not_cut_by_other_jobs_of_the_user_and_no_estimate_exceeds_it() -> None:
    nightly, new = job(1, name="nightly", time_limit_s=100), job(2, name="new", time_limit_s=100)
    assert run_estimate_s(new, ran(nightly, *[50.0] * 20)) == 100
    assert run_estimate_s(nightly, ran(nightly, 50.0)) == 50.0
    assert run_estimate_s(nightly, ran(nightly, 500.0)) == 100


def test_one_very_long_run_of_many_does_not_stand_for_the_next() -> None:
    nightly = job(1, name="nightly")
    assert run_estimate_s(nightly, ran(nightly, 9000.0, *[50.0] * 28)) == 50.0
