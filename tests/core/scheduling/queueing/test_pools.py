"""Devices set apart: whose they are, whom they are lent to, and how they come back."""

import pytest

from corral.core.model.fact import AllocationEnded, Delta, JobChanged, NodeRemoved, SiteArranged, StartsPromised
from corral.core.model.jobs.job_patch import JobPatch
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.plan import WaitReason
from corral.core.model.queues.queue import Limits, Pool, Quota
from corral.core.model.view import View
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.policy import Backfill, Policy
from corral.core.scheduling.queueing.order import FCFS
from tests.core.scheduling.lab import T0, box, ended, job, observed, started, started_ids, submitted

BOX = box(gpus=4)
POOLS = (Pool("nlp's", ("GPU-box-0", "GPU-box-1"), projects=("nlp",), lends=True),)


def with_pool(*, lends: bool) -> View:
    pool = Pool("nlp's", ("GPU-box-0", "GPU-box-1"), projects=("nlp",), lends=lends)
    return View(pools={pool.name: pool}).advance(observed(BOX))


def evicted(job_id: str) -> list[Delta]:
    back: JobPatch = {"phase": Phase.PENDING, "allocation_id": None, "started_at": None}
    return [
        JobChanged(job_id, back, at=T0 + 60, by="test"),
        AllocationEnded(f"{job_id}.1", job_id, at=T0 + 60, by="test"),
    ]


def placed(view: View) -> dict[str, tuple[str, ...]]:
    return {start.job_id: start.placement.uuids for start in Planner(view).plan(T0).starts}


def test_a_static_pool_is_its_owners_alone() -> None:
    view = with_pool(lends=False).advance(submitted(job(1, 2), job(2, 1), job(3, 2, project="nlp")))
    assert placed(view) == {"1": ("GPU-box-2", "GPU-box-3"), "3": ("GPU-box-0", "GPU-box-1")}
    wait = Planner(view).plan(T0).waits[0]
    assert (wait.job_id, wait.reason) == ("2", WaitReason.RESOURCES)


@pytest.mark.parametrize(
    "pool",
    [
        Pool("lab", ("late:*",), users=("bob",)),
        Pool("lab", ("H100",), users=("bob",)),
        Pool("lab", ("GPU-late-0", "late:1"), users=("bob",)),
    ],
)
def test_nobody_else_gets_a_device_of_a_pool_whose_node_comes_while_they_wait(pool: Pool) -> None:
    waiting = submitted(job(1, 2), job(2, 2, user="carol"), job(3, 2, user="dave"), job(4, 2, user="bob"))
    view = View().advance([SiteArranged(pools=(pool,)), *observed(BOX), *waiting])
    warm = Planner(view)
    view = view.advance([each for start in warm.plan(T0).starts for each in started(start)])
    warm = Planner(view)
    assert warm.plan(T0).starts == ()
    came = observed(box("late", 2, model="H100"))
    warm.advance(came)
    view = view.advance(came)
    assert placed(view) == {"4": ("GPU-late-0", "GPU-late-1")}
    assert warm.plan(T0) == Planner(view).plan(T0)


def test_the_reserved_part_moves_with_the_nodes_for_a_warm_planner_as_for_a_cold_one() -> None:
    pool = Pool("lab", (), users=("bob",), part=0.5)
    view = View().advance([SiteArranged(pools=(pool,)), *observed(box("b", 2)), *submitted(job(1, 2), job(2, 1))])
    warm = Planner(view)
    assert [start.placement.uuids for start in warm.plan(T0).starts] == [("GPU-b-1",)]
    for step in (observed(box("a", 1)), observed(box("c", 4)), [NodeRemoved("b")], [NodeRemoved("a")]):
        warm.advance(step)
        view = view.advance(step)
        assert warm.plan(T0) == Planner(view).plan(T0)


def test_owners_may_use_what_is_everybodys_too() -> None:
    view = with_pool(lends=False).advance(submitted(job(1, 4, project="nlp")))
    assert len(placed(view)["1"]) == 4


def test_what_is_lent_is_taken_last() -> None:
    view = with_pool(lends=True).advance(submitted(job(1, 1), job(2, 2)))
    assert placed(view) == {"1": ("GPU-box-2",), "2": ("GPU-box-0", "GPU-box-3")}


def test_an_owner_takes_back_from_the_borrower_alone() -> None:
    view = with_pool(lends=True).advance(submitted(job(1, 2), job(2, 2)))
    for start in Planner(view).plan(T0).starts:
        view = view.advance(started(start))
    view = view.advance(submitted(job(3, 1, project="nlp")))
    plan = Planner(view).plan(T0 + 60)
    assert [(one.job_id, one.reason) for one in plan.evictions] == [
        ("2", "pool nlp's reclaims for job 3 what it had lent to alice")
    ]


def test_who_was_ended_for_an_owner_does_not_come_back_before_the_owner_has_its_devices() -> None:
    view = with_pool(lends=True).advance(submitted(job(1, 1), job(2, 1), job(3, 1), job(4, 1)))
    for start in Planner(view).plan(T0).starts:
        view = view.advance(started(start))
    view = view.advance(submitted(job(5, 2, project="nlp")))
    (borrower, _) = (one.job_id for one in Planner(view).plan(T0 + 60).evictions)
    view = view.advance(evicted(borrower))
    assert Planner(view).plan(T0 + 61).starts == ()


def test_what_was_cleared_for_an_owner_is_the_owners_though_who_was_ended_is_next_in_a_strict_queue() -> None:
    policy = Policy(FCFS, strict=True)
    view = with_pool(lends=True).advance(submitted(job(1, 1), job(2, 2)))
    for start in Planner(view, policy=policy).plan(T0).starts:
        view = view.advance(started(start))
    view = view.advance([*ended("1", T0 + 60), *submitted(job(3, 3, project="nlp"))])
    plan = Planner(view, policy=policy).plan(T0 + 60)
    assert [(one.job_id, one.for_job_id) for one in plan.evictions] == [("2", "3")]
    view = view.advance([*evicted("2"), StartsPromised(plan.promises)])
    assert started_ids(Planner(view, policy=policy).plan(T0 + 60)) == ["3"]


def test_a_pool_goes_on_lending_while_its_owner_waits_for_something_else() -> None:
    view = with_pool(lends=True).advance([SiteArranged(pools=POOLS, limits=Limits(of_user=Quota(devices=1)))])
    view = view.advance(submitted(job(1, 1, project="nlp")))
    view = view.advance(started(Planner(view).plan(T0).starts[0]))
    borrowers = [job(number, 1, user=user) for number, user in ((3, "b"), (4, "c"), (5, "d"))]
    view = view.advance(submitted(job(2, 1, project="nlp"), *borrowers))
    assert sorted(placed(view)) == ["3", "4", "5"]


def test_nobody_is_ended_for_one_who_owns_nothing() -> None:
    view = with_pool(lends=True).advance(submitted(job(1, 4)))
    view = view.advance(started(Planner(view).plan(T0).starts[0])).advance(submitted(job(2, 1, user="bob")))
    assert Planner(view).plan(T0 + 60).evictions == ()


def test_a_job_that_lives_on_what_is_lent_keeps_nobody_from_starting() -> None:
    """An owner waits behind it, so the pool lends nothing: both would wait for ever."""
    view = with_pool(lends=True).advance(submitted(job(1, 3), job(2, 1, project="nlp", gang_size=3)))
    for policy in (Policy(FCFS), Policy(FCFS, strict=True), Policy(FCFS, Backfill.NONE)):
        plan = Planner(view, policy=policy).plan(T0)
        assert ([start.job_id for start in plan.starts], [wait.job_id for wait in plan.waits]) == (["2"], ["1"])


def test_a_plan_in_which_the_last_owner_starts_is_not_the_last_word() -> None:
    view = with_pool(lends=True).advance(submitted(job(1, 3), job(2, 1, project="nlp")))
    plan = Planner(view, policy=Policy(FCFS)).plan(T0)
    assert ([start.job_id for start in plan.starts], plan.complete) == (["2"], False)
    after = Planner(view.advance(started(plan.starts[0])), policy=Policy(FCFS)).plan(T0)
    assert ([start.job_id for start in after.starts], after.complete) == (["1"], True)


def test_a_split_share_is_promised_beside_a_pool_that_is_shut_to_it() -> None:
    view = with_pool(lends=False).advance(submitted(job(1, 2, time_limit_s=60)))
    view = view.advance(started(Planner(view).plan(T0).starts[0]))
    plan = Planner(view.advance(submitted(job(2, 1, split_milli=1500)))).plan(T0)
    assert [(one.job_id, one.start_at) for one in plan.future_starts] == [("2", T0 + 60)]
