"""More urgent work gets room within a limit: by work that counts against the same limit, and by no more of it."""

from dataclasses import replace
from typing import Any

import pytest

from corral.core.model.fact import Delta, JobChanged, SiteArranged, StartsPromised
from corral.core.model.jobs.job import Job, JobKind
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.plan import Plan, WaitReason
from corral.core.model.queues.queue import Limits, Project, Queue, Quota
from corral.core.model.view import View
from corral.core.scheduling.explaining.why import explain
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import POLICIES, Policy
from tests.core.scheduling.evicting.test_preemption import put_back
from tests.core.scheduling.lab import A100, H100, T0, box, job, observed, started, started_ids, submitted

LATER = T0 + 1000
URGENT = Queue("default", preempts=True)
TWO = Quota(devices=2)


def running(
    *jobs: Job,
    queues: tuple[Queue, ...] = (URGENT,),
    projects: tuple[Project, ...] = (),
    limits: Limits = Limits(of_user=TWO),  # noqa: B008
    nodes: tuple[Any, ...] = (box(gpus=8),),
) -> View:
    """Nodes on which these jobs run, each since its own number of seconds after T0; the limits hold from then on."""
    view = View().advance([SiteArranged(queues=queues), *observed(*nodes)])
    for one in jobs:
        view = view.advance(submitted(one))
        for start in Planner(view).plan(T0).starts:
            view = view.advance(started(start, at=T0 + one.sequence, user=one.spec.user))
    assert len(view.allocations) == len(jobs)
    return view.advance([SiteArranged(queues, projects, limits=limits)])


def plan_of(view: View, now: float = LATER, **options: Any) -> Plan:
    return Planner(view, **options).plan(now)


def made_room(view: View, **options: Any) -> list[tuple[str, str]]:
    """Who is ended for whom."""
    return [(end.job_id, end.for_job_id) for end in plan_of(view, **options).evictions]


def test_ones_own_less_urgent_job_makes_room_within_the_limit_of_the_user() -> None:
    view = running(job(1, 1), job(2, 1), job(3, 1, user="bob", priority=9)).advance(submitted(job(4, 1, priority=1)))
    (end,) = plan_of(view).evictions
    assert (end.job_id, end.for_job_id) == ("2", "4"), "the last of one's own, though another user's is less urgent"
    assert end.reason == "job 4 has priority 1 and goes before 5 in the quota of user alice"


def test_no_more_make_room_than_lift_the_limit() -> None:
    view = running(*(job(n, 1) for n in range(1, 9)), limits=Limits(of_user=Quota(share_milli=8000)))
    assert made_room(view.advance(submitted(job(9, 1, priority=1)))) == [("8", "9")]
    assert made_room(view.advance(submitted(job(9, 3, priority=1)))) == [("8", "9"), ("7", "9"), ("6", "9")]


@pytest.mark.parametrize("priority", [5, 6])
def test_nobody_makes_room_for_an_equal_or_less_urgent_job(priority: int) -> None:
    assert made_room(running(job(1, 2)).advance(submitted(job(2, 1, priority=priority)))) == []


def test_nobody_makes_room_where_the_queue_does_not_preempt() -> None:
    assert made_room(running(job(1, 2), queues=(Queue("default"),)).advance(submitted(job(2, 1, priority=1)))) == []


def test_in_the_quota_of_a_project_anybody_in_it_makes_room_and_nobody_else() -> None:
    view = running(
        job(1, 1, user="bob", project="p"),
        job(2, 1, user="alice", project="p", priority=4),
        job(3, 1, user="bob", priority=9),
        projects=(Project("p", quota=TWO),),
        limits=Limits(),
    )
    assert made_room(view.advance(submitted(job(4, 1, project="p", priority=1)))) == [("1", "4")]


def test_in_the_quota_of_a_queue_jobs_of_the_queues_below_it_make_room_and_nobody_else() -> None:
    lab, own, beside = Queue("lab", quota=TWO), Queue("own", parent="lab", preempts=True), Queue("beside", parent="lab")
    view = running(
        job(1, 1, queue="own"),
        job(2, 1, queue="beside", user="bob"),
        job(3, 1, priority=9),
        queues=(lab, own, beside, Queue("default")),
        limits=Limits(),
    )
    assert made_room(view.advance(submitted(job(4, 1, queue="own", priority=1)))) == [("2", "4")]
    assert made_room(view.advance(submitted(job(4, 2, queue="own", priority=1)))) == [("2", "4"), ("1", "4")]


def test_whoever_is_least_urgent_makes_room_where_the_site_runs_no_more_jobs() -> None:
    view = running(job(1, 1), job(2, 1, user="bob", priority=9), limits=Limits(max_running_jobs=2))
    assert made_room(view.advance(submitted(job(3, 1, priority=1)))) == [("2", "3")]


def test_several_limits_are_lifted_together() -> None:
    view = running(
        job(1, 1, project="p"),
        job(2, 1),
        job(3, 1, user="bob", project="p"),
        projects=(Project("p", quota=TWO),),
    )
    assert made_room(view.advance(submitted(job(4, 1, project="p", priority=1)))) == [("1", "4")], "it helps with both"


def test_nobody_makes_room_for_what_no_end_gives_back() -> None:
    spent = Limits(of_user=Quota(gpu_hours=0.1, period_s=3600.0, devices=2))
    assert made_room(running(job(1, 2), limits=spent).advance(submitted(job(2, 1, priority=1)))) == []


def test_who_makes_room_in_the_quota_has_the_gpus_that_are_wanted_if_anybody_does() -> None:
    nodes = (box("a", 2, model=A100), box("h", 2, model=H100))
    view = running(
        job(1, 1, models=("H100",)),
        job(2, 1, user="bob", models=("H100",), priority=9),
        job(3, 1, models=("A100",), priority=9),
        nodes=nodes,
    )
    wanted = job(4, 1, models=("H100",), priority=1)
    assert made_room(view.advance(submitted(wanted))) == [("1", "4")], (
        "one's own with the model, though it lasts longest"
    )
    alone = running(job(2, 2, user="bob", models=("H100",)), job(3, 2, models=("A100",)), nodes=nodes)
    assert made_room(alone.advance(submitted(wanted))) == [("3", "4"), ("2", "4")], (
        "within the quota it is like any other"
    )


def test_nobody_makes_room_if_the_job_would_still_not_fit() -> None:
    view = running(job(1, 2), job(2, 6, user="bob", priority=1), limits=Limits(of_user=Quota(devices=6)))
    view = view.advance([SiteArranged((URGENT,), limits=Limits(of_user=Quota(devices=6)))])
    assert made_room(view.advance(submitted(job(3, 6, priority=1)))) == []


def test_reservations_and_spared_jobs_count_and_do_not_make_room() -> None:
    kept = running(job(1, 2, kind=JobKind.RESERVE))
    assert made_room(kept.advance(submitted(job(2, 1, priority=1)))) == []
    young = running(job(1, 2)).advance(submitted(job(2, 1, priority=1)))
    assert made_room(young, policies={**POLICIES, "priority": Policy(spared_s=5000)}) == []


def test_a_job_of_a_queue_that_would_take_it_back_does_not_make_room() -> None:
    own = Queue("own", parent="lab", preempts=True, quota=Quota(share_milli=1000, borrow_milli=2000))
    lender = Queue("lender", parent="lab", quota=Quota(share_milli=2000))
    queues = (Queue("lab"), own, lender)
    view = running(job(1, 1, queue="own"), job(2, 1, queue="lender"), queues=queues, nodes=(box(gpus=3),))
    assert made_room(view.advance(submitted(job(3, 1, queue="own", priority=1)))) == [("1", "3")]


def test_nobody_else_makes_room_while_enough_are_stopping_and_nobody_else_gets_what_they_give_back() -> None:
    view = running(job(1, 1), job(2, 1)).advance(submitted(job(4, 1, priority=1)))
    plan = plan_of(view)
    assert [end.job_id for end in plan.evictions] == ["2"]
    stopping: list[Delta] = [
        StartsPromised(plan.promises),
        JobChanged("2", {"phase": Phase.STOPPING}, at=LATER, by="test"),
        *submitted(job(3, 1), job(5, 1, user="bob")),
    ]
    view = view.advance(stopping)
    warm = Planner(view)
    plan = warm.plan(LATER)
    assert (plan.evictions, started_ids(plan)) == ((), ["5"])
    assert [promised.job_id for promised in plan.promises] == ["4"]
    gone = put_back("2")
    warm.advance(gone)
    assert warm.plan(LATER) == plan_of(view.advance(gone))
    assert started_ids(warm.plan(LATER)) == ["4", "5"]


def test_the_most_urgent_of_all_starts_and_the_rest_goes_on_where_it_was() -> None:
    view = running(job(1, 1), job(2, 1)).advance(submitted(job(4, 1, priority=1)))
    view = view.advance([StartsPromised(plan_of(view).promises), *put_back("2")])
    assert started_ids(plan_of(view)) == ["4"]
    view = view.advance(started(plan_of(view).starts[0]))
    plan = plan_of(view)
    assert (plan.starts, plan.evictions) == ((), ())
    assert {wait.job_id: wait.reason for wait in plan.waits} == {"2": WaitReason.LIMIT}


def test_why_says_for_whom_and_within_which_quota() -> None:
    view = running(job(1, 1), job(2, 1)).advance(submitted(job(4, 1, priority=1)))
    wait = next(one for one in plan_of(view).waits if one.job_id == "4")
    assert explain(view, view.jobs["4"], wait, LATER).sentence == (
        "job 4 waits: user alice uses 2 of at most 2 GPUs, and this job asks for 1 more; it starts when enough "
        "is released. It is expected to start when job 2 has been stopped for it, which is less urgent."
    )


def test_a_place_at_which_the_job_would_count_as_too_much_ends_nobody() -> None:
    small = replace(box("small", 2), name="small")
    view = running(job(1, 1, share_milli=500), nodes=(small,), limits=Limits(of_user=Quota(share_milli=500)))
    assert made_room(view.advance(submitted(job(2, 1, share_milli=1000, priority=1)))) == []
