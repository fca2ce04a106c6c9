"""What users do with a job."""

from dataclasses import replace

import pytest

from corral.core.lifecycle import commands, ending, starting, stopping
from corral.core.model.errors import Conflict
from corral.core.model.fact import AllocationEnded, JobChanged, JobRequeued
from corral.core.model.jobs.job import Job, JobKind
from corral.core.model.jobs.phase import Phase
from corral.core.model.view import View
from tests.core.control.strategies import box, job, with_jobs
from tests.core.lifecycle.taken_steps import BACKOFF, URGENT, exited, phases, started


def test_who_requeues_or_cancels_a_job_makes_it_lose_nothing_to_others() -> None:
    view = started(with_jobs(box(), job(1)), "1", 0)
    requeued = view.advance(commands.requeue(view, view.jobs["1"], by="bob", at=203.0))
    cancelled = view.advance(stopping.evict(view.jobs["1"], URGENT, by="test", at=203.0))
    cancelled = cancelled.advance(commands.cancel(cancelled, cancelled.jobs["1"], by="bob", at=203.5))
    for each in (requeued, cancelled):
        facts = ending.ended(each, each.jobs["1"], exited("1", code=143), by="test", at=204.0, backoff=BACKOFF)
        assert [fact.lost_from for fact in facts if isinstance(fact, AllocationEnded)] == [None]
        assert not any("lost_s" in fact.changes for fact in facts if isinstance(fact, JobChanged))


def test_what_has_ended_cannot_be_cancelled_and_what_runs_cannot_be_held() -> None:
    view = started(with_jobs(box(), job(1)), "1", 0)
    with pytest.raises(Conflict, match="only a job that waits can be held"):
        commands.hold(view.jobs["1"], True, by="test", at=203.0)
    over = ending.ended(view, view.jobs["1"], exited("1"), by="test", at=203.0, backoff=BACKOFF)
    done = Job("1", 1, view.jobs["1"].spec, 100.0, phase=Phase.SUCCEEDED)
    assert phases(over, "1") == [Phase.SUCCEEDED]
    with pytest.raises(Conflict, match="already ended"):
        commands.cancel(view, done, by="bob", at=204.0)


def test_a_reservation_that_is_released_has_ended_well_and_holds_nothing() -> None:
    session = job(1)
    session = replace(session, spec=replace(session.spec, kind=JobKind.RESERVE))
    view = started(with_jobs(box(), session, job(2, after=("1",))), "1", 0)
    view = view.advance(starting.running(view, view.jobs["1"], 201.0, by="test", at=201.0))
    facts = commands.release(view, view.jobs["1"], by="alice", at=202.0)
    outcome = facts[0]
    assert isinstance(outcome, JobChanged)
    assert (outcome.changes["phase"], outcome.changes["reason"]) == (Phase.SUCCEEDED, "released by alice")
    view = view.advance(facts)
    assert not any(view.holders.values())
    assert view.jobs["2"].phase is Phase.PENDING


def test_only_a_reservation_can_be_released_while_it_runs() -> None:
    view = started(with_jobs(box(), job(1)), "1", 0)
    view = view.advance(starting.running(view, view.jobs["1"], 201.0, by="test", at=201.0))
    with pytest.raises(Conflict, match="only a job that waits can be released"):
        commands.release(view, view.jobs["1"], by="alice", at=202.0)


def test_a_waiting_job_is_cancelled_with_all_that_were_to_follow_it() -> None:
    view = with_jobs(box(), job(1), job(2, after=("1",)), job(3, after=("2",)), job(4))
    facts = commands.cancel(view, view.jobs["1"], by="bob", at=203.0)
    assert [phases(facts, job_id) for job_id in ("1", "2", "3", "4")] == [[Phase.CANCELLED]] * 3 + [[]]


def test_a_job_that_failed_can_be_run_once_more_and_a_session_cannot() -> None:
    failed = replace(job(1), phase=Phase.FAILED, launch_failures=4, eligible_at=900.0, reason="it broke")
    (fact,) = commands.requeue(View(), failed, by="bob", at=203.0)
    assert isinstance(fact, JobRequeued)
    again = fact.job
    assert (again.phase, again.launch_failures, again.eligible_at, again.reason) == (Phase.PENDING, 0, None, None)
    with pytest.raises(Conflict, match="a reservation"):
        commands.requeue(View(), replace(failed, spec=replace(failed.spec, kind=JobKind.RESERVE)), by="bob", at=203.0)
