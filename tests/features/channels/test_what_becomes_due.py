"""Every end for good of a job that asks for it makes a notification due in the same commit, and no other step does."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from corral.core.control.submitting.new_jobs import admit
from corral.core.lifecycle import commands, ending, starting, stopping
from corral.core.lifecycle.input import give_up
from corral.core.model.fact import Fact
from corral.core.model.jobs.job import Job, JobKind
from corral.core.model.jobs.notification import NotifyOn
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.launch import LaunchPhase, LaunchReport
from corral.core.model.slice import LedgerDraft, LedgerSnapshot
from corral.core.model.view import View
from corral.features.channels.facts import NoticeDue, NoticeGiven, NotificationDue, NotificationGiven
from corral.features.channels.slice import DueNotice, DueNotification, NoticesSlice
from tests.core.control.strategies import box, job, with_jobs
from tests.core.lifecycle.taken_steps import BACKOFF, URGENT, exited, started


def loud(number: int, **given: Any) -> Job:
    kind = given.pop("kind", JobKind.RUN)
    plain = job(number, **given)
    return replace(plain, spec=replace(plain.spec, notify="mail me", kind=kind))


def committed(before: View | LedgerSnapshot, facts: Sequence[Fact]) -> tuple[LedgerSnapshot, Sequence[Fact]]:
    """What a commit of these facts publishes, and all that it writes."""
    known = LedgerSnapshot(before, {NoticesSlice: NoticesSlice()}) if isinstance(before, View) else before
    draft = LedgerDraft(known)
    written = draft.take(facts)
    return draft.freeze(), written


def due(view: View, facts: Sequence[Fact]) -> list[str]:
    return [fact.job_id for fact in committed(view, facts)[1] if isinstance(fact, NotificationDue)]


def over(view: View, report: LaunchReport) -> list[Fact]:
    return ending.ended(view, view.jobs["1"], report, by="test", at=203.0, backoff=BACKOFF)


LOST = LaunchReport("1.1", LaunchPhase.DEAD, reason="its node is gone")


@pytest.mark.parametrize(
    "report", [exited("1"), exited("1", code=3), exited("1", code=143, ending=Phase.TIMED_OUT), LOST]
)
def test_the_end_of_the_last_attempt_is_told_however_it_ended(report: LaunchReport) -> None:
    view = started(with_jobs(box(), loud(1)), "1", 0)
    facts = over(view, report)
    assert due(view, facts) == ["1"]
    known = committed(view, facts)[0].of(NoticesSlice)
    assert known.notifications == {"1": DueNotification("1", "alice", 203.0)}


def test_a_job_of_which_nobody_wants_to_hear_is_not_told_of() -> None:
    view = started(with_jobs(box(), job(1)), "1", 0)
    assert due(view, over(view, exited("1"))) == []


def test_an_attempt_that_is_followed_by_another_is_not_told() -> None:
    view = started(with_jobs(box(), loud(1, retries=1)), "1", 0)
    assert due(view, over(view, exited("1", code=3))) == []
    assert due(view, over(view, LOST)) == []


def test_a_job_that_makes_room_is_not_told_of_and_one_that_is_cancelled_meanwhile_is() -> None:
    view = started(with_jobs(box(), loud(1)), "1", 0)
    view = view.advance(stopping.evict(view.jobs["1"], URGENT, by="test", at=202.0))
    assert due(view, over(view, exited("1"))) == []
    view = view.advance(commands.cancel(view, view.jobs["1"], by="bob", at=202.0))
    assert due(view, over(view, exited("1"))) == ["1"]


def test_a_job_that_is_cancelled_before_it_started_is_told_with_all_that_would_have_followed_it() -> None:
    view = with_jobs(box(), loud(1), loud(2, after=("1",)), job(3, after=("1",)))
    assert due(view, commands.cancel(view, view.jobs["1"], by="bob", at=203.0)) == ["1", "2"]


def test_a_job_whose_dependency_is_lost_as_it_is_submitted_is_told() -> None:
    failed = replace(job(1), phase=Phase.FAILED)
    facts = admit(box(), [loud(2, after=("1",))], lambda _: (failed,), "alice", 203.0).facts
    assert due(box(), facts) == ["2"]


def test_a_job_that_could_never_be_launched_is_told_after_the_last_try() -> None:
    view = started(with_jobs(box(), loud(1)), "1", 0)

    def failed(failures: int) -> list[Fact]:
        tried = replace(view.jobs["1"], launch_failures=failures)
        return starting.launch_failed(view, tried, "no disk", by="test", at=203.0, backoff=BACKOFF)

    assert due(view, failed(0)) == []
    assert due(view, failed(starting.MAX_LAUNCH_FAILURES - 1)) == ["1"]
    stopped = view.advance(commands.cancel(view, view.jobs["1"], by="bob", at=202.0))
    assert due(stopped, starting.never_ran(stopped, stopped.jobs["1"], by="test", at=203.0)) == ["1"]


def test_a_job_whose_input_nobody_sends_any_more_is_told() -> None:
    view = with_jobs(box(), loud(1))
    assert due(view, give_up(view, view.jobs["1"], "its client is gone", by="test", at=203.0)) == ["1"]


def test_a_reservation_that_is_released_is_told() -> None:
    view = started(with_jobs(box(), loud(1, kind=JobKind.RESERVE)), "1", 0)
    view = view.advance(starting.running(view, view.jobs["1"], 201.0, by="test", at=201.0))
    assert due(view, commands.release(view, view.jobs["1"], by="alice", at=203.0)) == ["1"]


def test_of_an_array_the_last_end_counts_until_it_is_told() -> None:
    first, second = (
        replace(loud(number), id=f"7_{number}", array_id="7", array_index=number, phase=Phase.PENDING)
        for number in (1, 2)
    )
    view = with_jobs(box(), first, second)
    after, _ = committed(view, commands.cancel(view, first, by="bob", at=203.0))
    after, _ = committed(after, commands.cancel(after.view, second, by="bob", at=204.0))
    known = after.of(NoticesSlice)
    assert known.notifications == {"7": DueNotification("7_2", "alice", 204.0)}
    assert known.advance([NotificationGiven("7", at=205.0, by="test")]).notifications == {}


def told_of(number: int, *events: NotifyOn, **given: Any) -> Job:
    plain = job(number, **given)
    return replace(plain, spec=replace(plain.spec, notify_on=events))


def notices(view: View, facts: Sequence[Fact]) -> list[tuple[str, str]]:
    written = committed(view, facts)[1]
    return [(fact.job_id, "start" if fact.started else "end") for fact in written if isinstance(fact, NoticeDue)]


def test_the_first_start_is_told_to_who_asked_for_it_and_no_later_one() -> None:
    view = started(with_jobs(box(), told_of(1, NotifyOn.STARTED, retries=1), job(2)), "1", 0)
    facts = starting.running(view, view.jobs["1"], 202.0, by="test", at=202.0)
    assert notices(view, facts) == [("1", "start")]
    known = committed(view, facts)[0].of(NoticesSlice)
    assert known.notices == {"start of 1": DueNotice("1", "alice", True, 202.0)}
    again = replace(view.jobs["1"], attempts=1)
    assert notices(view, starting.running(view, again, 202.0, by="test", at=202.0)) == []
    assert notices(view, over(view, exited("1"))) == []


@pytest.mark.parametrize("event", [NotifyOn.DONE, NotifyOn.FAILED])
def test_an_end_for_good_is_told_to_who_asked_for_either_end(event: NotifyOn) -> None:
    view = started(with_jobs(box(), told_of(1, event, retries=1)), "1", 0)
    assert notices(view, over(view, exited("1", code=3))) == []
    facts = over(view, exited("1"))
    assert notices(view, facts) == [("1", "end")]
    known = committed(view, facts)[0].of(NoticesSlice)
    assert known.notices == {"end of 1": DueNotice("1", "alice", False, 203.0)}
    assert known.advance([NoticeGiven("end of 1", at=204.0, by="test")]).notices == {}


def test_a_job_that_never_started_and_is_cancelled_is_told_as_an_end() -> None:
    view = with_jobs(box(), told_of(1, NotifyOn.STARTED, NotifyOn.FAILED))
    assert notices(view, commands.cancel(view, view.jobs["1"], by="bob", at=203.0)) == [("1", "end")]
