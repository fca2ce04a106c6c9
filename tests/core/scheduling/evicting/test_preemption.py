"""Who is ended for whom, and who never is."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.model.fact import AllocationEnded, CheckpointsObserved, Delta, JobChanged, StartsPromised
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.job_patch import JobPatch
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.fit import Misfit
from corral.core.model.placing.plan import Evict, Plan, WaitReason
from corral.core.model.queues.queue import Pool, Queue, Quota
from corral.core.model.view import View
from corral.core.scheduling.placing.node_by_node import choose
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import POLICIES, Policy
from corral.core.scheduling.queueing.order import Order
from corral.core.scheduling.state.draft import PlacementRequest, draft_of
from tests.core.scheduling.lab import T0, box, job, observed, started, started_ids, submitted

URGENT = Queue("default", preempts=True)


def running(*jobs: Job, queues: tuple[Queue, ...] = (URGENT,), gpus: int = 4, at: float = T0) -> View:
    """A box on which these jobs run, each since its own number of seconds after T0."""
    view = View(queues={queue.name: queue for queue in queues}).advance(observed(box(gpus=gpus)))
    for one in jobs:
        view = view.advance(submitted(one))
        for start in Planner(view).plan(at).starts:
            view = view.advance(started(start, at=at + one.sequence, user=one.spec.user))
    return view


def put_back(job_id: str) -> list[Delta]:
    """The job has made room and waits again."""
    back: JobPatch = {"phase": Phase.PENDING, "allocation_id": None, "started_at": None}
    return [
        JobChanged(job_id, back, at=T0 + 1000, by="test"),
        AllocationEnded(f"{job_id}.1", job_id, at=T0 + 1000, by="test"),
    ]


def evicted(plan: Plan) -> list[str]:
    return [eviction.job_id for eviction in plan.evictions]


def plan_of(view: View, now: float = T0 + 1000, **options: Any) -> Plan:
    return Planner(view, **options).plan(now)


def test_more_urgent_work_makes_the_least_urgent_make_room() -> None:
    view = running(job(1, 2, priority=5), job(2, 2, priority=9)).advance(submitted(job(3, 2, priority=1)))
    assert plan_of(view).evictions == (Evict("2", "3", "job 3 has priority 1 and goes before 9"),)


def test_of_equals_the_one_that_loses_least_work_goes() -> None:
    view = running(job(1, 2), job(2, 2)).advance(submitted(job(3, 2, priority=1)))
    assert evicted(plan_of(view)) == ["2"]


def test_work_in_a_checkpoint_is_not_lost_so_who_has_just_saved_goes() -> None:
    view = running(job(1, 2), job(2, 2)).advance(submitted(job(3, 2, priority=1)))
    assert evicted(plan_of(view.advance([CheckpointsObserved({"1.1": T0 + 990})]))) == ["1"]
    both = {"1.1": T0 + 900, "2.1": T0 + 990}
    assert evicted(plan_of(view.advance([CheckpointsObserved(both)]))) == ["2"]


def test_what_is_free_already_is_not_given_away_while_room_is_made() -> None:
    view = running(job(1, 2, priority=9, time_limit_s=1000)).advance(
        submitted(job(3, 4, priority=1, time_limit_s=60), job(4, 1, time_limit_s=1))
    )
    plan = plan_of(view, T0 + 10)
    assert (evicted(plan), plan.starts) == (["1"], ())


def test_no_more_jobs_are_ended_than_it_takes() -> None:
    view = running(job(1, 3), job(2, 1)).advance(submitted(job(3, 3, priority=1)))
    assert evicted(plan_of(view)) == ["1"]


def test_nobody_is_ended_for_an_equal() -> None:
    view = running(job(1, 4)).advance(submitted(job(2, 4)))
    assert evicted(plan_of(view)) == []


def test_nobody_is_ended_where_the_queue_does_not_preempt() -> None:
    view = running(job(1, 4), queues=()).advance(submitted(job(2, 4, priority=1)))
    assert evicted(plan_of(view)) == []


def test_nobody_is_ended_if_the_job_would_still_not_fit() -> None:
    view = running(job(1, 1, priority=1), job(2, 3)).advance(submitted(job(3, 4, priority=1)))
    assert evicted(plan_of(view)) == []


def test_nobody_else_is_ended_while_enough_are_stopping() -> None:
    view = running(job(1, 2), job(2, 2)).advance(submitted(job(3, 2, priority=1)))
    stopping: list[Delta] = [JobChanged("2", {"phase": Phase.STOPPING}, at=T0 + 1000, by="test")]
    plan = plan_of(view.advance(stopping))
    assert evicted(plan) == []
    assert [reserve.job_id for reserve in plan.future_starts] == ["3"], "what they give back is for the job"


def test_a_job_is_spared_until_it_has_run_its_least_time() -> None:
    view = running(job(1, 4)).advance(submitted(job(2, 4, priority=1)))
    spared = {**POLICIES, "priority": Policy(spared_s=600)}
    assert evicted(plan_of(view, T0 + 100, policies=spared)) == []
    assert evicted(plan_of(view, T0 + 700, policies=spared)) == ["1"]


LENDER = Queue("lender", parent="lab", quota=Quota(share_milli=3000))
BORROWER = Queue("borrower", parent="lab", quota=Quota(share_milli=1000, borrow_milli=3000))


def borrowing() -> View:
    jobs = [job(n, 1, queue="borrower", priority=1) for n in (1, 2, 3, 4)]
    return running(*jobs, queues=(LENDER, BORROWER, Queue("lab")))


def test_idle_quota_is_lent_and_taken_back() -> None:
    view = borrowing()
    assert sum(len(a.placement.uuids) for a in view.allocations.values()) == 4
    plan = plan_of(view.advance(submitted(job(9, 2, queue="lender", priority=9))))
    assert evicted(plan) == ["4", "3"], "the last to come have lost least"
    assert plan.evictions[0].reason == "queue lender reclaims for job 9 what it had lent to queue borrower"


SHARED = Queue("lab", quota=Quota(share_milli=4000))


def used_up(*waiting: Job) -> View:
    """The borrower has all four GPUs that the lab may hold, of eight; these jobs wait."""
    jobs = [job(n, 1, queue="borrower", priority=1) for n in (1, 2, 3, 4)]
    return running(*jobs, queues=(LENDER, BORROWER, SHARED), gpus=8).advance(submitted(*waiting))


def test_a_limit_that_is_used_up_on_loan_is_taken_back_though_devices_are_free() -> None:
    plan = plan_of(used_up(job(9, 2, queue="lender", priority=9)))
    assert evicted(plan) == ["4", "3"]
    assert plan.evictions[0].reason == "queue lender reclaims for job 9 what it had lent to queue borrower"
    assert (plan.waits[0].job_id, plan.waits[0].reason) == ("9", WaitReason.LIMIT)


def test_what_was_taken_back_under_a_limit_is_the_lenders() -> None:
    view = used_up(job(9, 2, queue="lender", priority=9))
    stopping = view.advance([JobChanged(one, {"phase": Phase.STOPPING}, at=T0 + 1000, by="test") for one in ("3", "4")])
    waits = plan_of(stopping)
    assert (waits.evictions, waits.starts) == ((), ()), "enough are stopping"
    plan = plan_of(view.advance([*put_back("3"), *put_back("4")]))
    assert [start.job_id for start in plan.starts] == ["9"]


def test_under_a_shared_limit_nobody_is_ended_for_more_than_was_lent_nor_below_the_borrowers_own() -> None:
    assert evicted(plan_of(used_up(job(9, 4, queue="lender")))) == []
    plan = plan_of(used_up(job(8, 2, queue="lender"), job(9, 2, queue="lender")))
    assert evicted(plan) == ["4", "3"]


def test_under_a_shared_limit_nobody_is_ended_if_the_job_would_still_have_no_place() -> None:
    view = used_up(job(9, 2, queue="lender", models=("H100",)))
    assert evicted(plan_of(view)) == []


def test_more_than_its_own_a_queue_does_not_take_back() -> None:
    view = borrowing().advance(submitted(job(9, 4, queue="lender", priority=9)))
    assert evicted(plan_of(view)) == []


def test_more_than_may_be_borrowed_is_not_started_and_says_so() -> None:
    view = borrowing()
    small = Queue("borrower", parent="lab", quota=Quota(share_milli=1000, borrow_milli=500))
    fresh = View(nodes=view.nodes, conditions=view.conditions, queues={"lender": LENDER, "borrower": small})
    plan = plan_of(fresh.advance(submitted(job(1, 1, queue="borrower"), job(2, 1, queue="borrower"))))
    assert [start.job_id for start in plan.starts] == ["1"]
    assert plan.waits[0].reason is WaitReason.LIMIT
    assert plan.waits[0].detail == (
        "queue borrower uses 1 of at most 1 GPUs, with 0.5 to borrow now, and this job asks for 1 more"
    )


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 9)), max_size=6),
    st.tuples(st.integers(1, 6), st.integers(1, 9)),
)
def test_whoever_is_ended_is_less_urgent_and_their_end_makes_room(
    others: list[tuple[int, int]], wanted: tuple[int, int]
) -> None:
    view = running(*(job(n, g, priority=p) for n, (g, p) in enumerate(others, start=1)), gpus=6)
    view = view.advance(submitted(job(99, wanted[0], priority=wanted[1])))
    plan = plan_of(view)
    for eviction in plan.evictions:
        urgent = view.jobs[eviction.for_job_id]
        assert view.jobs[eviction.job_id].spec.priority > urgent.spec.priority
    if plan.evictions:
        draft = draft_of(view)
        for eviction in plan.evictions:
            draft.give(view.allocations[f"{eviction.job_id}.1"].placement.members)
        assert not isinstance(
            choose(draft, PlacementRequest(view.jobs[plan.evictions[0].for_job_id].spec.request)), Misfit
        )


def test_what_room_was_made_for_does_not_go_to_whoever_made_it() -> None:
    urgent, other = Queue("urgent", preempts=True), Queue("other", weight=9.0)
    view = View(queues={"urgent": urgent, "other": other}).advance(observed(box(gpus=1)))
    view = view.advance(submitted(job(1, queue="other", priority=9), job(2, queue="other", priority=9)))
    view = view.advance(started(plan_of(view).starts[0])).advance(submitted(job(3, queue="urgent", priority=1)))
    assert evicted(plan_of(view)) == ["1"]
    gone: list[Delta] = [
        JobChanged("1", {"phase": Phase.PENDING, "allocation_id": None}, at=T0, by="test"),
        AllocationEnded("1.1", "1", at=T0, by="test"),
    ]
    assert [start.job_id for start in plan_of(view.advance(gone)).starts] == ["3"]


def test_a_borrower_does_not_borrow_before_the_lender_has_had_its_own() -> None:
    view = borrowing()
    heavy = Queue("borrower", parent="lab", weight=99.0, quota=BORROWER.quota)
    view = replace(view, queues={**view.queues, "borrower": heavy}).advance(submitted(job(9, 1, queue="lender")))
    gone: list[Delta] = [
        JobChanged("4", {"phase": Phase.PENDING, "allocation_id": None}, at=T0, by="test"),
        AllocationEnded("4.1", "4", at=T0, by="test"),
    ]
    assert [start.job_id for start in plan_of(view.advance(gone)).starts] == ["9"]


def test_urgency_stays_first_in_a_queue_whose_own_order_has_failed() -> None:
    failing = {**POLICIES, "site": Policy(Order("site", lambda _job, _context: (float("nan"),)))}
    queue = Queue("default", policy="site", preempts=True)
    ended = job(1, 4, priority=9)
    view = View(queues={"default": queue}).advance(observed(box(gpus=4)) + submitted(ended, job(2, 4, priority=1)))
    assert [start.job_id for start in plan_of(view, policies=failing).starts] == ["2"]


def test_a_promise_to_less_urgent_work_does_not_keep_urgent_work_waiting() -> None:
    queues = (URGENT, Queue("slow", backfill="conservative"))
    view = running(job(1, 4, queue="slow", priority=9, time_limit_s=3600), queues=queues)
    view = view.advance(submitted(job(2, 4, queue="slow", priority=9, time_limit_s=3600)))
    promised = plan_of(view)
    view = view.advance([StartsPromised(promised.promises), *submitted(job(3, 4, priority=1, time_limit_s=7200))])
    assert evicted(plan_of(view)) == ["1"]
    view = view.advance(put_back("1"))
    assert [start.job_id for start in plan_of(view).starts] == ["3"]


def test_what_room_was_made_for_is_promised_so_that_no_equal_takes_it_first() -> None:
    queues = (URGENT, Queue("aside", policy="fcfs", preempts=True, backfill="none"))
    view = running(job(1, 4, priority=9), queues=queues)
    view = view.advance(submitted(job(2, 4, priority=1, queue="aside"), job(3, 4, priority=1)))
    plan = plan_of(view)
    (end,) = plan.evictions
    assert [promise.job_id for promise in plan.promises] == [end.for_job_id]
    other = ({"2", "3"} - {end.for_job_id}).pop()
    moved = view.advance([StartsPromised(plan.promises), *put_back("1")])
    assert [start.job_id for start in plan_of(moved).starts] == [end.for_job_id] != [other]


def test_nobody_is_ended_for_a_place_that_is_only_lent() -> None:
    """Its owner would wait for it from then on, and so would get it back."""
    pool = Pool("own", ("GPU-box-0",), users=("bob",), lends=True)
    owner = job(1, 1, priority=9, user="bob")
    view = View(queues={"default": URGENT}, pools={"own": pool}).advance(observed(box(gpus=1)) + submitted(owner))
    view = view.advance(started(Planner(view).plan(T0).starts[0], user="bob"))
    assert plan_of(view.advance(submitted(job(2, 1, priority=1, user="eve")))).evictions == ()


def test_the_quota_that_room_was_made_under_is_not_used_by_those_behind() -> None:
    queue = Queue("default", preempts=True, quota=Quota(running=3))
    view = running(job(1, 2, priority=9), job(2, 1, priority=1), queues=(queue,))
    plan = plan_of(view.advance(submitted(job(3, 3, priority=1), job(4, 0, priority=2, cpu_milli=1000))))
    assert (evicted(plan), plan.starts) == (["1"], ())


def test_what_a_pool_lends_counts_while_none_of_its_owners_would_have_to_wait_for_it() -> None:
    pool = Pool("own", ("GPU-box-0",), users=("bob",), lends=True)
    borrower = job(1, 2, priority=9)
    view = View(queues={"default": URGENT}, pools={"own": pool}).advance(observed(box(gpus=2)) + submitted(borrower))
    view = view.advance(started(Planner(view).plan(T0).starts[0]))
    assert evicted(plan_of(view.advance(submitted(job(2, 2, priority=1, user="eve"))))) == ["1"]


def test_the_quota_that_was_cleared_for_a_job_is_not_taken_again_by_the_one_that_was_ended() -> None:
    """Job 4, which goes before job 5, neither fits nor takes anything back: only what job 5 was promised keeps it."""
    queues = {
        "lab": Queue("lab", quota=Quota(share_milli=4000)),
        "a": Queue("a", parent="lab", quota=Quota(share_milli=2000, borrow_milli=1000)),
        "b": Queue("b", parent="lab", quota=Quota(share_milli=2000)),
        "c": Queue("c", parent="lab", quota=Quota(share_milli=3000, borrow_milli=1000)),
    }
    holders = [
        job(1, queue="c", time_limit_s=1.0),
        job(2, queue="a"),
        job(3, 2, queue="a", time_limit_s=12.0),
    ]
    view = View(queues=queues).advance(observed(box(gpus=5)) + submitted(*holders))
    for start in Planner(view).plan(T0).starts:
        view = view.advance(started(start))
    view = view.advance(submitted(job(4, 3, queue="c", time_limit_s=1.0), job(5, queue="c", time_limit_s=4.0)))
    plan = Planner(view).plan(T0)
    assert [(one.job_id, one.for_job_id) for one in plan.evictions] == [("3", "5")]
    view = view.advance([*put_back("3"), StartsPromised(plan.promises)])
    assert started_ids(Planner(view).plan(T0)) == ["5"]
