"""A period run again on the site as it is: which jobs count, what they find there, and what policies make of it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from corral.core.model.devices.device import Device, Node
from corral.core.model.errors import Refused
from corral.core.model.fact import Fact, JobChanged, SiteArranged
from corral.core.model.jobs.phase import Phase
from corral.core.model.queues.queue import Limits, Pool, Queue, Quota
from corral.core.model.runs.run_history import PastRun
from corral.core.scheduling.policy import POLICIES
from corral.features.replays.answers import ReplayCourse, ReplayResult
from corral.features.replays.replay import replay
from corral.features.replays.replay_order import ReplayOrder
from tests.core.scheduling.lab import A100, T0, job
from tests.sim.test_journal import PAST, story

SITE = SiteArranged((Queue("default", "fcfs"),))
ORDER = ReplayOrder(
    policies=("configured",),
    since=T0,
    until=T0 + 5000,
    now=T0 + 5000,
    nodes=(),
    site=SITE,
    placement=(),
    usage_half_life_s=86400.0,
    availability_memory_weight=0.5,
)


def run_again(facts: Sequence[Fact], *policies: str, order: ReplayOrder = ORDER) -> ReplayResult:
    return replay(facts, replace(order, policies=policies or ("configured",)), POLICIES, lambda done, total: None)


def course(result: ReplayResult, name: str) -> ReplayCourse:
    return next(one for one in result.courses if one.name == name)


def test_the_past_comes_first_and_each_policy_beside_it() -> None:
    result = run_again(PAST, "configured", "sjf")
    assert [one.name for one in result.courses] == ["recorded", "configured", "sjf"]
    assert [one.max_wait_s for one in result.courses] == [1000, 1000, 10]
    assert [(group.name, group.mean_wait_s) for group in result.users] == [
        ("alice", (0, 0, 10)),
        ("bob", (1000, 1000, 0)),
    ]
    assert [one.id for one in result.jobs] == ["2", "1"]
    assert result.gpus == 1


def test_what_ran_before_the_period_keeps_its_gpu_and_is_not_counted() -> None:
    later = replace(ORDER, since=T0 + 400)
    result = run_again(PAST, "sjf", order=later)
    assert [(one.jobs, one.max_wait_s) for one in result.courses] == [(1, 1000), (1, 1000)]
    assert result.courses[1].allocated[0] == 1


def test_what_ended_before_the_period_or_came_after_it_is_not_there() -> None:
    after = [*PAST, *story(job(3, submitted_at=T0 + 2000), "GPU-0", T0 + 2000, T0 + 2100)]
    result = run_again(after, order=replace(ORDER, since=T0 + 500, until=T0 + 1500))
    assert [one.jobs for one in result.courses] == [1, 1]


def test_a_period_without_jobs_is_refused_in_words() -> None:
    with pytest.raises(Refused, match="choose another"):
        run_again(PAST, order=replace(ORDER, since=T0 + 3000))


def test_a_job_counts_as_submitted_when_only_the_queue_kept_it() -> None:
    facts = story(job(1, submitted_at=T0), "GPU-0", T0 + 100, T0 + 200)
    facts[1] = JobChanged(
        "1", {"phase": Phase.STARTING, "waited": (("Held", 70.0), ("Resources", 30.0))}, at=T0 + 100, by="test"
    )
    result = run_again(facts)
    assert [one.max_wait_s for one in result.courses] == [30, 0]


def test_one_that_still_runs_has_run_until_now() -> None:
    running = story(job(1, submitted_at=T0), "GPU-0", T0, T0 + 100)[:4]
    assert run_again(running).courses[1].makespan_s == 5000


def test_gpus_that_are_there_now_are_used_beside_those_that_jobs_had() -> None:
    now = (Node("box", (Device("GPU-0", 0, A100, 81_920), Device("GPU-9", 1, A100, 81_920)), 64_000, 1 << 20),)
    result = run_again(PAST, "fcfs", order=replace(ORDER, nodes=now))
    assert (result.gpus, result.courses[1].max_wait_s) == (2, 0)
    moved = run_again(PAST, "fcfs", order=replace(ORDER, nodes=(replace(now[0], devices=now[0].devices[1:]),)))
    assert moved.gpus == 2


def test_quotas_of_the_site_hold_whatever_the_policy() -> None:
    now = (Node("box", (Device("GPU-0", 0, A100, 81_920), Device("GPU-9", 1, A100, 81_920)), 64_000, 1 << 20),)
    tight = replace(ORDER, nodes=now, site=SiteArranged((Queue("default", "fcfs", quota=Quota(devices=1)),)))
    assert run_again(PAST, "sjf", order=tight).courses[1].max_wait_s == 10


def test_a_job_that_the_site_would_never_start_is_told_as_unfinished() -> None:
    shut = SiteArranged((Queue("default", "fcfs"),), pools=(Pool("theirs", ("GPU-0",), users=("bob",)),))
    result = run_again(PAST, order=replace(ORDER, site=shut))
    assert [(one.jobs, one.unfinished) for one in result.courses] == [(2, 0), (1, 1)]
    none = replace(ORDER, site=SiteArranged((Queue("default", "fcfs"),), limits=Limits(max_running_jobs=0)))
    assert run_again(PAST, order=none).courses[1].unfinished == 2


def test_backfill_is_named_behind_the_policy() -> None:
    wide = job(2, 2, submitted_at=T0 + 1, time_limit_s=100)
    facts = story(job(1, submitted_at=T0, time_limit_s=100), "GPU-0", T0, T0 + 100)
    facts += story(wide, "GPU-1", T0 + 100, T0 + 200)
    facts += story(job(3, submitted_at=T0 + 2, time_limit_s=50), "GPU-1", T0 + 200, T0 + 250)
    result = run_again(facts, "fcfs/none", "fcfs/easy")
    waits = [one.runs[1:] for one in result.jobs if one.id == "3"]
    assert [[run.wait_s for run in runs] for runs in waits] == [[198, 0]]


def test_a_policy_that_is_not_known_is_refused_with_the_nearest() -> None:
    with pytest.raises(Refused, match="did you mean 'fcfs'"):
        run_again(PAST, "fcsf")


def test_time_slices_are_counted_as_evictions() -> None:
    facts = story(job(1, submitted_at=T0), "GPU-0", T0, T0 + 9000)
    facts += story(job(2, submitted_at=T0 + 10), "GPU-0", T0 + 9000, T0 + 9100)
    result = run_again(facts, "las", order=replace(ORDER, until=T0 + 9500, now=T0 + 9500))
    told = course(result, "las")
    assert (told.evictions, told.unfinished) == (1, 0)
    assert told.max_wait_s is not None
    assert told.max_wait_s < 8990


@pytest.mark.parametrize(("used_by", "first"), [("alice", "3"), ("bob", "2")])
def test_fair_shares_begin_with_what_had_run_before(used_by: str, first: str) -> None:
    facts = story(job(1, submitted_at=T0, user="carol"), "GPU-0", T0, T0 + 100)
    facts += story(job(2, submitted_at=T0 + 1, user="alice"), "GPU-0", T0 + 100, T0 + 200)
    facts += story(job(3, submitted_at=T0 + 1, user="bob"), "GPU-0", T0 + 100, T0 + 200)
    before = PastRun(used_by, "default", "default", (), 8.0, T0 - 9000, T0 - 10)
    order = replace(ORDER, policies=("fair-share",))
    result = replay(facts, order, POLICIES, lambda done, total: None, remembered=[before])
    later = {"2": "3", "3": "2"}[first]
    assert [(one.id, one.runs[1].wait_s) for one in result.jobs] == [(later, 199)]
