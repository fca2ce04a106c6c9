"""A start hands devices out; a launch that comes to nothing gives them back."""

from dataclasses import replace

import pytest

from corral.core.lifecycle import commands, ending, starting, stopping
from corral.core.model.fact import Fact
from corral.core.model.jobs.job import JobKind
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.launch import Again
from corral.core.model.view import View
from tests.core.control.strategies import box, job, with_jobs
from tests.core.lifecycle.taken_steps import BACKOFF, URGENT, exited, phases, started


def test_a_start_hands_the_devices_out_and_an_end_gives_them_back() -> None:
    view = started(with_jobs(box(), job(1)), "1", 0, 1)
    assert set(view.holders) == {"GPU-0", "GPU-1"}
    view = view.advance(ending.ended(view, view.jobs["1"], exited("1"), by="test", at=203.0, backoff=BACKOFF))
    assert not view.holders
    assert "1" not in view.jobs


def test_each_launch_has_an_allocation_of_its_own_and_only_what_ran_counts_as_an_attempt() -> None:
    view = started(with_jobs(box(), job(1, retries=3)), "1", 0)
    first = view.jobs["1"].allocation_id
    view = view.advance(starting.never_ran(view, view.jobs["1"], by="test", at=201.0))
    assert (view.jobs["1"].phase, view.jobs["1"].attempts, dict(view.holders)) == (Phase.PENDING, 0, {})
    view = started(view, "1", 0)
    view = view.advance(starting.running(view, view.jobs["1"], 201.0, by="test", at=201.0))
    allocation = view.allocations[view.jobs["1"].allocation_id or ""]
    assert (first, allocation.id, allocation.attempt, allocation.reserved) == ("1.1", "1.2", 1, False)
    view = view.advance(ending.ended(view, view.jobs["1"], exited("1", code=3), by="test", at=203.0, backoff=BACKOFF))
    assert view.jobs["1"].attempts == 1
    again = started(view, "1", 0)
    assert again.allocations["1.3"].attempt == 2


def test_what_a_session_holds_is_marked_as_reserved() -> None:
    session = job(1)
    session = replace(session, spec=replace(session.spec, kind=JobKind.RESERVE))
    assert started(with_jobs(box(), session), "1", 0).allocations["1.1"].reserved


def test_a_launch_that_failed_is_tried_again_after_a_pause_that_grows() -> None:
    view = with_jobs(box(), job(1))
    eligible = []
    for _ in range(3):
        view = started(view, "1", 0)
        view = view.advance(
            starting.launch_failed(view, view.jobs["1"], "no room", by="test", at=203.0, backoff=BACKOFF)
        )
        eligible.append(view.jobs["1"].eligible_at)
    assert eligible == [204.0, 205.0, 207.0]
    assert (view.jobs["1"].phase, view.jobs["1"].attempts, dict(view.holders)) == (Phase.PENDING, 0, {})


def test_a_launch_that_fails_too_often_fails_the_job_with_the_last_reason() -> None:
    view = with_jobs(box(), job(1))
    for _ in range(starting.MAX_LAUNCH_FAILURES):
        view = started(view, "1", 0)
        facts = starting.launch_failed(
            view, view.jobs["1"], "no memory for a fork", by="test", at=203.0, backoff=BACKOFF
        )
        view = view.advance(facts)
    assert phases(facts, "1") == [Phase.FAILED]
    assert "no memory for a fork" in str(facts)


def test_what_a_node_lacks_for_now_is_waited_for_however_often_it_is_missed() -> None:
    view = with_jobs(box(), job(1))
    for _ in range(2 * starting.MAX_LAUNCH_FAILURES):
        view = started(view, "1", 0)
        one = view.jobs["1"]
        facts = starting.launch_failed(view, one, "no daemon", by="test", at=203.0, backoff=BACKOFF, again=Again.ALWAYS)
        view = view.advance(facts)
        assert (view.jobs["1"].phase, view.jobs["1"].reason) == (Phase.PENDING, "no daemon")
    assert view.jobs["1"].launch_failures == 0


def test_what_would_fail_again_in_the_same_way_is_not_tried_again() -> None:
    view = started(with_jobs(box(), job(1, retries=3)), "1", 0)
    one = view.jobs["1"]
    never = starting.launch_failed(view, one, "no such", by="test", at=203.0, backoff=BACKOFF, again=Again.NEVER)
    assert phases(never, "1") == [Phase.FAILED]
    view = view.advance(starting.running(view, one, 201.0, by="test", at=201.0))
    for again, steps in ((Again.AS_ASKED, [Phase.FAILED, Phase.PENDING]), (Again.NEVER, [Phase.FAILED])):
        report = replace(exited("1", code=3), again=again)
        facts = ending.ended(view, view.jobs["1"], report, by="test", at=203.0, backoff=BACKOFF)
        assert phases(facts, "1") == steps


@pytest.mark.parametrize("came_to_nothing", ["never_ran", "launch_failed"])
def test_what_was_stopped_before_it_ran_ends_as_it_was_to_end(came_to_nothing: str) -> None:
    def nothing(view: View) -> list[Fact]:
        if came_to_nothing == "never_ran":
            return starting.never_ran(view, view.jobs["1"], by="test", at=204.0)
        return starting.launch_failed(view, view.jobs["1"], "no", by="test", at=204.0, backoff=BACKOFF)

    view = started(with_jobs(box(), job(1), job(2, after=("1",))), "1", 0)
    evicted = view.advance(stopping.evict(view.jobs["1"], URGENT, by="test", at=203.0))
    assert phases(nothing(evicted), "1") == [Phase.PENDING]
    cancelled = view.advance(commands.cancel(view, view.jobs["1"], by="bob", at=203.0))
    facts = nothing(cancelled)
    assert (phases(facts, "1"), phases(facts, "2")) == ([Phase.CANCELLED], [Phase.CANCELLED])
    assert not cancelled.advance(facts).holders
