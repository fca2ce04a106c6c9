"""A job is stopped for others, for what it did, or because its time is over."""

from dataclasses import replace

import pytest

from corral.core.lifecycle import ending, starting, stopping
from corral.core.model.fact import AllocationEnded, CheckpointsObserved, JobChanged
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.eviction import Eviction, EvictionRule
from corral.core.model.runs.launch import LaunchPhase, LaunchReport
from tests.core.control.strategies import box, job, with_jobs
from tests.core.lifecycle.taken_steps import BACKOFF, URGENT, exited, phases, started


@pytest.mark.parametrize(
    ("age_s", "now", "ends"),
    [(74.0, 274.0, False), (76.0, 276.0, True), (None, 900.0, False), (76.0, 210.0, False), (10.0, 90_000.0, False)],
)
def test_a_job_is_ended_for_its_time_limit_once_both_clocks_say_that_its_supervisor_did_not(
    age_s: float | None, now: float, ends: bool
) -> None:
    limited = job(1)
    limited = replace(limited, spec=replace(limited.spec, time_limit_s=60.0))
    view = started(with_jobs(box(), limited), "1", 0)
    view = view.advance(starting.running(view, view.jobs["1"], 200.0, by="test", at=200.0))
    report = LaunchReport("1.1", LaunchPhase.RUNNING, 200.0, age_s=age_s)
    facts = stopping.overdue(view.jobs["1"], report, 10.0, by="test", at=now)
    assert phases(facts, "1") == ([Phase.STOPPING] if ends else [])
    if ends:
        view = view.advance(facts)
        dead = LaunchReport("1.1", LaunchPhase.DEAD, 200.0)
        ended = ending.ended(view, view.jobs["1"], dead, by="test", at=now, backoff=BACKOFF)[0]
        assert isinstance(ended, JobChanged)
        assert ended.changes["phase"] is Phase.TIMED_OUT
        assert "stopped or stuck" in str(ended.changes["reason"])


@pytest.mark.parametrize(("age_s", "ends"), [(130.0, False), (136.0, True)])
def test_a_job_whose_start_was_never_told_is_ended_for_its_time_limit_too(age_s: float, ends: bool) -> None:
    limited = job(1)
    limited = replace(limited, spec=replace(limited.spec, time_limit_s=60.0))
    view = started(with_jobs(box(), limited), "1", 0)
    report = LaunchReport("1.1", LaunchPhase.CLAIMED, age_s=age_s)
    facts = stopping.overdue(view.jobs["1"], report, 10.0, by="test", at=900.0)
    assert phases(facts, "1") == ([Phase.STOPPING] if ends else [])


def test_an_evicted_job_keeps_its_place_and_waits_again() -> None:
    view = started(with_jobs(box(), job(1)), "1", 0)
    view = view.advance(stopping.evict(view.jobs["1"], URGENT, by="test", at=203.0))
    view = view.advance(ending.ended(view, view.jobs["1"], exited("1", code=143), by="test", at=204.0, backoff=BACKOFF))
    assert (view.jobs["1"].phase, view.jobs["1"].sequence, view.holders) == (Phase.PENDING, 1, {})


def made_room(
    chosen: Job, told_at: float, ended_at: float, saved_at: float | None = None
) -> tuple[Job, AllocationEnded]:
    """The job after it ran from 201 on and made room, and the end of what it held."""
    view = started(with_jobs(box(), chosen), "1", 0)
    view = view.advance(starting.running(view, view.jobs["1"], 201.0, by="test", at=201.0))
    view = view.advance(stopping.evict(view.jobs["1"], URGENT, by="test", at=told_at))
    view = view.advance([CheckpointsObserved({"1.1": saved_at})])
    report = replace(exited("1", code=143), ended_at=ended_at)
    facts = ending.ended(view, view.jobs["1"], report, by="test", at=ended_at, backoff=BACKOFF)
    (freed,) = (fact for fact in facts if isinstance(fact, AllocationEnded))
    return view.advance(facts).jobs["1"], freed


def test_it_is_kept_for_whom_by_which_rule_and_at_what_loss_a_job_made_room() -> None:
    after, freed = made_room(job(1), 211.0, 214.0)
    assert after.evicted == Eviction(
        EvictionRule.QUEUE_RECLAIM, "2", "taken back", 211.0, "1.1", lender="b", ran_s=13.0, lost_s=13.0
    )
    assert (after.evictions, after.lost_s, freed.lost_from) == (1, 13.0, 200.0)


def test_of_a_job_that_is_signalled_first_only_what_it_ran_after_that_is_lost() -> None:
    after, freed = made_room(replace(job(1), spec=replace(job(1).spec, checkpoint_signal="USR1")), 211.0, 214.0)
    assert after.evicted is not None
    assert (after.evicted.saves, after.evicted.ran_s, after.lost_s, freed.lost_from) == (True, 13.0, 3.0, 211.0)


@pytest.mark.parametrize("saved_at", [190.0, 205.0, 213.0])
def test_what_is_in_a_checkpoint_is_not_lost(saved_at: float) -> None:
    after, freed = made_room(job(1), 211.0, 214.0, saved_at)
    lost_from = max(200.0, saved_at)
    assert (after.lost_s, freed.lost_from, freed.saved_at) == (min(13.0, 214.0 - lost_from), lost_from, saved_at)
    told = replace(job(1), spec=replace(job(1).spec, checkpoint_signal="USR1"))
    after, freed = made_room(told, 211.0, 214.0, saved_at)
    assert (after.lost_s, freed.lost_from) == (214.0 - max(211.0, saved_at), max(211.0, saved_at))


def test_a_checkpoint_belongs_to_the_attempt_that_made_it() -> None:
    view = started(with_jobs(box(), job(1)), "1", 0).advance([CheckpointsObserved({"1.1": 205.0, "9.1": 1.0})])
    assert view.saved == {"1.1": 205.0}
    assert view.advance([CheckpointsObserved({"1.1": None})]).saved == {}
    facts = ending.ended(view, view.jobs["1"], exited("1", code=1), by="test", at=210.0, backoff=BACKOFF)
    assert view.advance(facts).saved == {}
    (freed,) = (fact for fact in facts if isinstance(fact, AllocationEnded))
    assert (freed.lost_from, freed.saved_at) == (None, 205.0)


def test_the_record_stays_when_the_job_starts_again_and_the_losses_add_up() -> None:
    first, _ = made_room(job(1), 211.0, 214.0)
    view = started(with_jobs(box(), first), "1", 0)
    assert (view.jobs["1"].evicted, view.jobs["1"].evicted_before) == (None, first.eviction)
    view = view.advance(starting.running(view, view.jobs["1"], 300.0, by="test", at=300.0))
    view = view.advance(stopping.evict(view.jobs["1"], URGENT, by="test", at=310.0))
    report = replace(exited("1", code=143), launch_id="1.2", started_at=300.0, ended_at=310.0)
    again = view.advance(ending.ended(view, view.jobs["1"], report, by="test", at=310.0, backoff=BACKOFF)).jobs["1"]
    assert (again.evictions, again.lost_s) == (2, 23.0)


@pytest.mark.parametrize("rule_", [EvictionRule.IDLE, EvictionRule.MEMORY])
def test_a_job_that_is_stopped_for_good_tells_by_which_rule(rule_: EvictionRule) -> None:
    view = started(with_jobs(box(), job(1)), "1", 0)
    (fact,) = stopping.stop(view.jobs["1"], Phase.CANCELLED, "unused", by="test", at=203.0, rule=rule_, for_job_id="2")
    assert isinstance(fact, JobChanged)
    assert fact.changes["eviction"] == Eviction(rule_, "2", "unused", 203.0, "1.1")


@pytest.mark.parametrize("how", [LaunchPhase.EXITED, LaunchPhase.DEAD])
def test_a_job_that_was_stopped_for_what_it_did_has_failed_with_that_reason_and_may_be_tried_again(
    how: LaunchPhase,
) -> None:
    view = started(with_jobs(box(), job(1), job(2, retries=1)), "1", 0)
    view = started(view, "2", 1)
    endings = {}
    for job_id in ("1", "2"):
        view = view.advance(stopping.stop(view.jobs[job_id], Phase.FAILED, "it held too much", by="test", at=201.0))
        report = LaunchReport(f"{job_id}.1", how, 200.0, 202.0, signal=15, exit_code=143, ending=Phase.FAILED)
        facts = ending.ended(view, view.jobs[job_id], report, by="test", at=203.0, backoff=BACKOFF)
        endings[job_id] = phases(facts, job_id)
        first = next(fact for fact in facts if isinstance(fact, JobChanged))
        assert first.changes["reason"] == "it held too much"
    assert endings == {"1": [Phase.FAILED], "2": [Phase.FAILED, Phase.PENDING]}
