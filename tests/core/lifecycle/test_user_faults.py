"""A user under whose jobs GPUs fall sick again and again starts nothing new until an administrator says so."""

from dataclasses import replace

from corral.core.control.submitting.new_jobs import admit
from corral.core.lifecycle import commands, starting
from corral.core.lifecycle.device_faults import device_fell_sick
from corral.core.lifecycle.user_faults import MOST_INCIDENTS, ONE_INCIDENT_S, REMEMBERED_S, why_held
from corral.core.model.devices.health import DeviceHealth, Health
from corral.core.model.fact import JobSubmitted, NodeObserved
from corral.core.model.jobs.job import Job, JobKind
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.site_faults import OnFault
from corral.core.model.placing.allocation import Grant, Member, Placement
from corral.core.model.view import View
from tests.core.control.strategies import box, job, with_jobs
from tests.core.lifecycle.taken_steps import place

HEALTH = DeviceHealth(Health.QUARANTINED, "Xid 79", 300.0)
OFTEN = MOST_INCIDENTS + 1


def after_faults(count: int, *, apart_s: float = 2 * ONE_INCIDENT_S) -> View:
    """The view after devices fell sick one after another, each under a job of alice, who has more waiting."""
    view = with_jobs(box(OFTEN + 2), *(job(number) for number in range(1, 20)))
    for number in range(1, count + 1):
        at = 1000.0 + number * apart_s
        view = view.advance(starting.start(view.jobs[str(number)], place(number - 1), by="test", at=at - 1))
        view = view.advance(device_fell_sick(view, f"GPU-{number - 1}", HEALTH, at))
    return view


def admitted(view: View, one: Job) -> Job:
    (fact,) = admit(view, [one], lambda _: (), one.spec.user, 1000.0 + OFTEN * 2 * ONE_INCIDENT_S).facts
    assert isinstance(fact, JobSubmitted)
    return fact.job


def test_waiting_jobs_are_held_after_one_fault_too_many_and_so_are_new_ones() -> None:
    view = after_faults(OFTEN - 1)
    assert not view.jobs["19"].held
    view = after_faults(OFTEN)
    last = f"GPU {OFTEN - 1} fell sick: Xid 79"
    said = f"GPUs fell sick during jobs of alice {OFTEN} times within a day; the last: {last}"
    assert view.jobs["19"].held_because == said
    reservation = replace(job(32), spec=replace(job(32).spec, kind=JobKind.RESERVE))
    new = admitted(view, job(30)), admitted(view, job(31, user="bob")), admitted(view, reservation)
    assert [one.held_because for one in new] == [said, None, None]


def test_devices_of_a_node_that_fall_sick_together_count_once() -> None:
    view = after_faults(OFTEN, apart_s=ONE_INCIDENT_S / OFTEN / 2)
    assert len(view.faults["alice"].incidents) == 1


def test_faults_are_forgotten_after_a_day() -> None:
    view = after_faults(OFTEN)
    assert why_held(view, "alice", 1000.0 + 2 * ONE_INCIDENT_S + REMEMBERED_S) is None


def test_a_release_by_an_administrator_ends_it_for_new_jobs_too() -> None:
    view = after_faults(OFTEN)
    view = view.advance(commands.release(view, view.jobs["19"], by="root", at=9000.0))
    assert not view.jobs["19"].held
    assert "alice" not in view.faults


def test_a_fault_of_a_device_in_whose_slices_several_users_work_counts_for_none() -> None:
    view = with_jobs(box(), job(1, user="alice"), job(2, user="bob"))
    node = view.nodes["box"]
    parts = [replace(node.devices[0], uuid=f"MIG-{n}", index=8 + n, parent_uuid="GPU-0") for n in (1, 2)]
    view = view.advance([NodeObserved(replace(node, devices=(*node.devices, *parts)))])
    for one in "12":
        slot = Placement((Member("box", (Grant(f"MIG-{one}", 1000),)),))
        view = view.advance(starting.start(view.jobs[one], slot, by="test", at=200.0))
    for one in "12":
        view = view.advance(device_fell_sick(view, f"MIG-{one}", HEALTH, 300.0))
    assert view.faults == {}


def test_a_job_that_moves_off_is_held_like_those_that_wait() -> None:
    view = after_faults(OFTEN - 1)
    moving = "15"
    view = view.advance(starting.start(view.jobs[moving], place(OFTEN), by="test", at=8000.0))
    job_15 = replace(view.jobs[moving], spec=replace(view.jobs[moving].spec, on_fault=OnFault.REQUEUE))
    view = replace(view, jobs={**view.jobs, moving: job_15})
    view = view.advance(device_fell_sick(view, f"GPU-{OFTEN}", HEALTH, 9000.0))
    assert (view.jobs[moving].phase, view.jobs[moving].held) == (Phase.STOPPING, True)


def test_a_hold_of_the_user_spares_no_job_the_one_by_the_server() -> None:
    view = after_faults(OFTEN - 1)
    view = view.advance(commands.hold(view.jobs["19"], True, by="alice", at=8000.0))
    view = view.advance(starting.start(view.jobs["15"], place(OFTEN), by="test", at=8000.0))
    view = view.advance(device_fell_sick(view, f"GPU-{OFTEN}", HEALTH, 9000.0))
    assert view.jobs["19"].held_because is not None


def test_a_fault_of_a_device_that_several_users_share_counts_for_none() -> None:
    view = with_jobs(box(), job(1, user="alice"), job(2, user="bob"))
    for one in "12":
        view = view.advance(starting.start(view.jobs[one], place(0), by="test", at=200.0))
    assert view.advance(device_fell_sick(view, "GPU-0", HEALTH, 300.0)).faults == {}
