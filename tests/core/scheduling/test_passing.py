"""Who may start before a job whose start nobody can predict, and for how long."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.model.jobs.job import Job
from corral.core.model.placing.plan import Plan, WaitReason
from corral.core.model.queues.queue import Limits, Project, Queue, Quota
from corral.core.model.view import View
from corral.core.scheduling.forecast import expected_starts
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import Policy
from corral.core.scheduling.queueing.order import FCFS, HOUR_S
from corral.sim.engine import Engine, SimulatedWork, inventory
from tests.core.scheduling.lab import T0, box, job, observed, started, started_ids, submitted

LIMIT_S, UNTIL_S = HOUR_S, 4 * HOUR_S
PASSING = Limits(pass_unknown_limit_s=LIMIT_S, pass_unknown_until_s=UNTIL_S)
GPUS = 4


def behind_an_unlimited_job(*jobs: Job, limits: Limits = PASSING, **site: Any) -> View:
    """Two of four GPUs are held by job 1, which has no time limit; then these come."""
    view = View(limits=limits, **site).advance([*observed(box(gpus=GPUS)), *submitted(job(1, 2, submitted_at=T0))])
    view = view.advance(started(Planner(view).plan(T0).starts[0]))
    return view.advance(submitted(*jobs))


HEAD = job(2, 4, submitted_at=T0)


@pytest.mark.parametrize(
    ("time_limit_s", "limits", "at", "starts"),
    [
        (LIMIT_S, PASSING, T0, True),
        (LIMIT_S + 1, PASSING, T0, False),
        (None, PASSING, T0, False),
        (10.0, PASSING, T0 + UNTIL_S - 1, True),
        (10.0, PASSING, T0 + UNTIL_S, False),
        (10.0, replace(PASSING, pass_unknown_limit_s=0.0), T0, False),
        (10.0, replace(PASSING, pass_unknown_until_s=0.0), T0, False),
    ],
)
def test_a_short_job_passes_a_head_of_unknown_start_until_that_has_waited_long(
    time_limit_s: float | None, limits: Limits, at: float, starts: bool
) -> None:
    view = behind_an_unlimited_job(HEAD, job(3, time_limit_s=time_limit_s), limits=limits)
    plan = Planner(view).plan(at)
    assert started_ids(plan) == (["3"] if starts else [])
    assert (plan.waits[0].job_id, plan.waits[0].reason) == ("2", WaitReason.RESOURCES)
    if not starts:
        assert (plan.waits[1].reason, plan.waits[1].behind) == (WaitReason.PRIORITY, "2")


def test_the_wait_of_a_head_begins_with_its_begin_time() -> None:
    begin = T0 + 2 * UNTIL_S
    view = behind_an_unlimited_job(replace(HEAD, spec=replace(HEAD.spec, begin_at=begin)), job(3, time_limit_s=10.0))
    assert started_ids(Planner(view).plan(begin + UNTIL_S - 1)) == ["3"]
    assert started_ids(Planner(view).plan(begin + UNTIL_S)) == []


@pytest.mark.parametrize("queue", [Queue("default", backfill="none"), Queue("default", "las")])
def test_passing_is_no_part_of_what_other_kinds_of_backfill_do(queue: Queue) -> None:
    view = behind_an_unlimited_job(HEAD, job(3, time_limit_s=10.0), queues={"default": queue})
    without = replace(view, limits=Limits())
    assert started_ids(Planner(view).plan(T0)) == started_ids(Planner(without).plan(T0))


def test_under_conservative_backfill_every_head_may_be_passed_until_the_first_has_waited_long() -> None:
    queues = {"default": Queue("default", backfill="conservative")}
    view = behind_an_unlimited_job(HEAD, job(3, 3), job(4, time_limit_s=10.0), queues=queues)
    assert started_ids(Planner(view).plan(T0)) == ["4"]
    assert started_ids(Planner(view).plan(T0 + UNTIL_S)) == []


def test_a_head_whose_start_is_known_is_passed_by_nobody_whom_that_would_delay() -> None:
    view = View(limits=PASSING).advance([*observed(box(gpus=GPUS)), *submitted(job(1, 2, time_limit_s=600.0))])
    view = view.advance(started(Planner(view).plan(T0).starts[0]))
    view = view.advance(submitted(HEAD, job(3, time_limit_s=601.0), job(4, time_limit_s=500.0)))
    assert started_ids(Planner(view).plan(T0)) == ["4"]


def test_one_that_passes_takes_what_is_kept_for_nobody_first() -> None:
    view = View(limits=PASSING).advance([*observed(box("a", 4), box("b", 2)), *submitted(job(1, 2, node="a"))])
    view = view.advance(started(Planner(view).plan(T0).starts[0]))
    view = view.advance(submitted(job(2, 4), job(3, time_limit_s=10.0)))
    assert Planner(view).plan(T0).starts[0].placement.members[0].node == "b"


def test_a_quota_kept_for_a_head_of_unknown_start_is_open_to_those_that_pass_too() -> None:
    project = {"p": Project("p", quota=Quota(devices=3))}
    running, head = job(1, 2, project="p", submitted_at=T0), job(2, 2, project="p", submitted_at=T0)
    view = View(limits=PASSING, projects=project).advance([*observed(box(gpus=GPUS)), *submitted(running)])
    view = view.advance(started(Planner(view).plan(T0).starts[0]))
    view = view.advance(submitted(head, job(3, project="p"), job(4, project="p", time_limit_s=10.0)))
    assert started_ids(Planner(view).plan(T0)) == ["4"]
    assert started_ids(Planner(view).plan(T0 + UNTIL_S)) == []


def test_what_passes_is_foreseen_as_it_then_starts() -> None:
    view = View(limits=PASSING).advance(
        [*observed(box(gpus=GPUS)), *submitted(job(1, 2), job(2, 2, time_limit_s=60.0))]
    )
    for start in Planner(view).plan(T0).starts:
        view = view.advance(started(start))
    view = view.advance(submitted(job(3, 4, submitted_at=T0), job(4, 2, time_limit_s=60.0), job(5, 2)))
    foreseen = expected_starts(view, T0, ["3", "4", "5"])
    assert [foreseen[one].start_at for one in ("3", "4", "5")] == [None, T0 + 60.0, None]
    assert foreseen["3"].depends_on == foreseen["5"].depends_on == "1"
    late = expected_starts(view, T0 + UNTIL_S, ["4"])
    assert late["4"].start_at is None, "the two GPUs come free when the head may be passed no more"


SMALL = st.tuples(
    st.integers(1, GPUS),
    st.sampled_from([600.0, LIMIT_S / 2, LIMIT_S, 3 * LIMIT_S]),
    st.sampled_from([True, True, False]),
    st.integers(1, 100).map(lambda step: step * UNTIL_S / 60),
)
"""GPUs, how long it runs, whether it says so, and how long after the head it comes."""


def simulated(held: list[tuple[int, float]], small: list[tuple[int, float, bool, float]], limits: Limits) -> float:
    """When a job for the whole box starts that comes while unlimited jobs run, and before all the small ones."""
    works = [SimulatedWork(job(n, gpus, submitted_at=T0), run_s) for n, (gpus, run_s) in enumerate(held, start=1)]
    head = SimulatedWork(job(100, GPUS, submitted_at=T0 + 1.0), 60.0)
    works.append(head)
    for n, (gpus, run_s, limited, after_s) in enumerate(small, start=101):
        limit_s = run_s if limited else None
        works.append(SimulatedWork(job(n, gpus, time_limit_s=limit_s, submitted_at=T0 + 1.0 + after_s), run_s))
    planner = Planner(policy=Policy(FCFS), limits=limits)
    planner.advance(inventory([box(gpus=GPUS)]))

    def watch(now: float, plan: Plan) -> None:
        assert planner.with_view(planner.view).plan(now) == plan, "a cold planner plans the same"
        waits = {wait.job_id: wait for wait in plan.waits}
        if "100" not in waits or waits["100"].expected_start is not None:
            return
        passing = [planner.view.jobs[one].spec.time_limit_s for one in started_ids(plan) if int(one) > 100]
        assert all(limit is not None and limit <= limits.pass_unknown_limit_s for limit in passing)
        assert not passing or now < T0 + 1.0 + limits.pass_unknown_until_s

    Engine(planner, [watch]).run(works)
    assert head.started_at is not None
    return head.started_at


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 2), st.floats(1.0, 2 * UNTIL_S)), min_size=1, max_size=2),
    st.lists(SMALL, max_size=40),
)
def test_whatever_passes_a_head_starts_by_the_time_of_both_settings_or_as_if_nothing_had_passed(
    held: list[tuple[int, float]], small: list[tuple[int, float, bool, float]]
) -> None:
    passed = simulated(held, small, PASSING)
    assert passed <= max(simulated(held, small, Limits()), T0 + 1.0 + UNTIL_S + LIMIT_S) + 1e-6
