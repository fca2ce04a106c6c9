"""A site's power budget: what counts, who is held, and who is not."""

from dataclasses import replace

import pytest

from corral.core.control.submitting.site_rules import LeastUse, obey
from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.means import Means
from corral.core.model.errors import Refused
from corral.core.model.jobs.job import Job, Request
from corral.core.model.jobs.submission import Submission
from corral.core.model.placing.plan import Plan, WaitReason
from corral.core.model.queues.queue import Limits, Queue
from corral.core.model.view import View
from corral.core.scheduling.explaining.why import WaitIndex, explain
from corral.core.scheduling.planner import Planner
from corral.core.scheduling.queueing.power_budget import counted_power_mw
from tests.core.scheduling.lab import H100, T0, box, ended, job, observed, powered, started, started_ids, submitted

BOX = powered(box(), 400)
MIXED = powered(box("a", 2, model=H100), 700), powered(box("b", 2), 400)


def site(budget_w: int, *nodes: Node, queues: tuple[Queue, ...] = ()) -> View:
    view = View(limits=Limits(power_budget_w=budget_w), queues={queue.name: queue for queue in queues})
    return view.advance(observed(*(nodes or (BOX,))))


def running(view: View, *jobs: Job) -> View:
    """The view in which those of these jobs run that start."""
    view = view.advance(submitted(*jobs))
    for start in Planner(view).plan(T0).starts:
        view = view.advance(started(start))
    return view


def planned(view: View, *jobs: Job) -> Plan:
    return Planner(view.advance(submitted(*jobs))).plan(T0)


def told(view: View, number: int) -> str:
    """Why a job waits, in a sentence."""
    plan, one = Planner(view).plan(T0), view.jobs[str(number)]
    return explain(view, one, WaitIndex(plan, view).of(one), T0, plan=plan).sentence


def test_starts_are_held_while_the_limits_of_gpus_with_jobs_would_pass_the_budget() -> None:
    plan = planned(site(1000), job(1), job(2), job(3))
    assert started_ids(plan) == ["1", "2"]
    (wait,) = plan.waits
    counted = "the power limits of GPUs with jobs add up to 800 W of the site's power budget of 1000 W"
    assert (wait.reason, wait.detail) == (WaitReason.POWER_BUDGET, f"{counted}, and this job's GPUs add 400 W")


def test_a_job_with_a_lower_limit_of_its_own_counts_less() -> None:
    plan = planned(site(1000), job(1), job(2, power_limit_w=300), job(3, power_limit_w=300), job(4, power_limit_w=301))
    assert started_ids(plan) == ["1", "2", "3"]


def test_a_gang_counts_whole_or_starts_not_at_all() -> None:
    plan = planned(site(1500), job(1, 2, gang_size=2), job(2, 0))
    assert started_ids(plan) == ["2"]
    assert planned(site(1600), job(1, 2, gang_size=2)).starts[0].job_id == "1"


def test_a_shared_gpu_counts_once_and_as_long_as_it_has_a_job() -> None:
    view = running(site(400), job(1, share_milli=500), job(2, share_milli=500))
    assert counted_power_mw(view, 400) == 400_000
    assert len(view.allocations) == 2
    view = view.advance(ended("1"))
    assert counted_power_mw(view, 400) == 400_000
    assert started_ids(planned(view, job(3))) == []
    assert counted_power_mw(view.advance(ended("2")), 400) == 0


def test_a_part_of_a_gpu_with_jobs_adds_nothing() -> None:
    view = running(site(500), job(1, share_milli=500))
    assert started_ids(planned(view, job(2, share_milli=500), job(3, share_milli=500))) == ["2"]


def test_the_slices_of_a_gpu_count_once_with_its_limit() -> None:
    cut = tuple(
        Device(f"MIG-{n}", 8 + n, "A100", 9728, means=Means.MIG, mig_profile="1g.10gb", parent_uuid="GPU-box-0")
        for n in range(3)
    )
    first, *others = (replace(one, means=Means.MIG) for one in BOX.devices)
    view = running(
        site(500, replace(BOX, devices=(first, *others, *cut))), *(job(n, mig_profile="1g.10gb") for n in (1, 2))
    )
    assert len(view.allocations) == 2
    assert counted_power_mw(view, 500) == 400_000


def test_what_ends_lets_the_next_start() -> None:
    view = running(site(800), job(1, 2), job(2, 2))
    planner = Planner(view)
    assert planner.plan(T0).starts == ()
    planner.advance(ended("1"))
    assert started_ids(planner.plan(T0)) == ["2"]


def test_a_job_goes_where_the_rest_of_the_budget_lets_it() -> None:
    """By default it would get the larger GPU."""
    plan = planned(site(1100, *MIXED), job(1, models=("H100",)), job(2), job(3))
    assert [start.placement.members[0].node for start in plan.starts] == ["a", "b"]
    assert [wait.reason for wait in plan.waits] == [WaitReason.POWER_BUDGET]


def test_no_job_starts_on_a_gpu_whose_limit_is_unknown_and_is_told_so() -> None:
    view = site(10_000, powered(box("a", 1), None), powered(box("b", 1), 400))
    plan = planned(view, job(1), job(2))
    assert [start.placement.uuids for start in plan.starts] == [("GPU-b-0",)]
    waiting = running(view, job(1)).advance(submitted(job(2)))
    assert "the power limit of 1 GPU there is above what is left of the site's power budget of 10000 W, or unknown" in (
        told(waiting, 2)
    )


def test_a_limit_of_its_own_starts_a_job_on_any_gpu_that_takes_it() -> None:
    unknown = tuple(replace(one, power_limit_mw=None) for one in BOX.devices)
    assert started_ids(planned(site(300, replace(BOX, devices=unknown)), job(1, power_limit_w=300))) == ["1"]


def test_the_rest_of_the_budget_is_kept_for_the_first_job_that_it_bars() -> None:
    view = running(site(1600), job(1, 3, time_limit_s=100))
    plan = planned(view, job(2, 4), job(3, time_limit_s=101), job(4, time_limit_s=100), job(5, 0))
    assert started_ids(plan) == ["4", "5"], "what ends in time passes, and what needs no GPU"
    wait = next(wait for wait in plan.waits if wait.job_id == "3")
    assert (wait.reason, wait.behind, wait.detail) == (WaitReason.PRIORITY, "2", "the site's power budget")


def test_a_job_that_the_budget_never_lets_start_holds_up_no_other() -> None:
    plan = planned(site(1000), job(1, 3), job(2))
    assert started_ids(plan) == ["2"]
    assert [(wait.job_id, wait.reason) for wait in plan.waits] == [("1", WaitReason.POWER_BUDGET)]


def test_urgent_work_may_take_the_power_of_less_urgent_work() -> None:
    view = running(site(800, queues=(Queue("default", preempts=True),)), job(1, priority=7), job(2, priority=6))
    plan = planned(view, job(3, priority=1))
    assert [(end.job_id, end.for_job_id) for end in plan.evictions] == [("1", "3")]
    assert "goes before 7 in the site's power budget" in plan.evictions[0].reason


def test_who_waits_for_power_is_told_what_counts() -> None:
    view = running(site(1000), job(1), job(2)).advance(submitted(job(3, name="sft")))
    assert told(view, 3).startswith(
        "sft waits: the power limits of GPUs with jobs add up to 800 W of the site's power budget of 1000 W, and this "
        "job's GPUs add 400 W; it starts when enough is released."
    )


@pytest.mark.parametrize(
    ("wanted", "least_w"),
    [(Request(devices=3), 1200), (Request(devices=2, gang_size=2, power_limit_w=300), 1200)],
)
def test_more_than_the_whole_budget_is_refused_at_once(wanted: Request, least_w: int) -> None:
    with pytest.raises(Refused, match=f"add up to at least {least_w} W, and the power budget of this site is 1000 W"):
        obey(site(1000), Submission(command=("true",), request=wanted), "alice", LeastUse())
