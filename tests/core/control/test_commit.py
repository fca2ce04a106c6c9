from corral.core.control.deciding.commit import commit_evictions, commit_starts
from corral.core.model.fact import AllocationMade, SiteArranged
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Grant, Member, Placement
from corral.core.model.placing.fit import Cause, Misfit
from corral.core.model.placing.plan import Evict, Start
from corral.core.model.queues.queue import Pool
from corral.core.model.view import View
from corral.core.ports.ledger import Decided
from tests.core.control.strategies import box, job, with_jobs


def on(job_id: str, *uuids: str) -> Start:
    return Start(job_id, Placement((Member("box", tuple(Grant(uuid, 1000) for uuid in uuids)),)), "test")


def free_devices_only(view: View, start: Start) -> Misfit | None:
    taken = [uuid for uuid in start.placement.uuids if view.allocated_milli(uuid)]
    return Misfit(Cause.ALLOCATED, 1, 0) if taken else None


def commit(view: View, *starts: Start) -> Decided[tuple[str, ...]]:
    return commit_starts(
        view,
        starts,
        5.0,
        verify=free_devices_only,
        describe=lambda *_: None,
        enforce=lambda *_: None,
        waited=lambda _: (("Resources", 2.0),),
    )


def test_two_starts_of_one_plan_never_get_the_same_device() -> None:
    decided = commit(with_jobs(box(), job(1), job(2)), on("1", "GPU-0"), on("2", "GPU-0"))
    assert decided.value == ("1.1",)
    assert [fact.allocation.id for fact in decided.facts if isinstance(fact, AllocationMade)] == ["1.1"]


def test_a_start_whose_job_was_cancelled_or_held_meanwhile_is_dropped_and_the_others_proceed() -> None:
    view = with_jobs(box(), job(1), job(2, after=("1",)), job(3))
    assert commit(view, on("9", "GPU-0"), on("2", "GPU-1"), on("3", "GPU-2")).value == ("3.1",)


def test_a_start_on_what_was_set_apart_for_others_since_its_decision_is_dropped() -> None:
    view = with_jobs(box(), job(1), job(2), job(3, user="bob"))
    view = view.advance([SiteArranged(pools=(Pool("bobs", ("GPU-0", "box:2"), users=("bob",)),))])
    assert commit(view, on("1", "GPU-0"), on("2", "GPU-1"), on("3", "GPU-2")).value == ("2.1", "3.1")


def test_a_start_keeps_how_the_wait_was_spent() -> None:
    view = with_jobs(box(), job(1))
    assert view.advance(commit(view, on("1", "GPU-0")).facts).jobs["1"].waited == (("Resources", 2.0),)


def test_the_members_of_a_gang_are_committed_in_the_order_of_their_ranks() -> None:
    members = tuple(Member("box", (Grant(uuid, 1000),)) for uuid in ("GPU-2", "GPU-0"))
    view = with_jobs(box(), job(1))
    view = view.advance(commit(view, Start("1", Placement(members), "test")).facts)
    assert view.allocations["1.1"].placement.uuids == view.jobs["1"].devices == ("GPU-0", "GPU-2")


def test_only_live_jobs_are_evicted() -> None:
    view = with_jobs(box(), job(1), job(2))
    view = view.advance(commit(view, on("1", "GPU-0")).facts)
    evictions = [Evict(job_id, "3", "room for job 3") for job_id in ("1", "2", "9")]
    decided = commit_evictions(view, evictions, 6.0)
    assert decided.value == ("1.1",)
    assert view.advance(decided.facts).jobs["1"].phase is Phase.STOPPING
