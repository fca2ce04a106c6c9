from dataclasses import replace

from corral.core.control.deciding.wait_times import WaitBook
from corral.core.model.placing.plan import WaitReason
from tests.core.control.strategies import job

FIRST, SECOND = job(1), job(2)
"""Two jobs alike, submitted at 100."""


def book(*holds: tuple[float, WaitReason]) -> WaitBook:
    waits = WaitBook()
    for now, reason in holds:
        waits.note([(FIRST, reason)], now)
    return waits


def test_a_wait_is_spent_by_reason_in_the_order_the_reasons_came() -> None:
    waits = book((100.0, WaitReason.PRIORITY), (110.0, WaitReason.RESOURCES), (120.0, WaitReason.RESOURCES))
    waits.note([(FIRST, WaitReason.PRIORITY)], 130.0)
    assert waits.spent(FIRST, 135.0) == (("Priority", 15.0), ("Resources", 20.0))


def test_a_job_shares_the_reasons_of_its_like_since_it_came() -> None:
    waits = book((90.0, WaitReason.PRIORITY), (110.0, WaitReason.RESOURCES))
    late = replace(SECOND, submitted_at=105.0)
    assert waits.spent(late, 120.0) == (("Priority", 5.0), ("Resources", 10.0))


def test_what_parks_a_job_goes_before_what_holds_its_like() -> None:
    waits = book((100.0, WaitReason.RESOURCES))
    waits.park(SECOND, WaitReason.DEPENDENCY, 100.0)
    waits.park(SECOND, None, 130.0)
    assert waits.spent(SECOND, 140.0) == (("Dependency", 30.0), ("Resources", 10.0))
    waits.close("2")
    assert waits.spent(SECOND, 140.0) == (("Resources", 40.0),)


def test_what_parks_a_job_until_a_moment_is_over_then_without_a_word() -> None:
    waits = book((100.0, WaitReason.RESOURCES))
    waits.park(FIRST, WaitReason.BEGIN_TIME, 100.0, until=130.0)
    assert waits.spent(FIRST, 120.0) == (("BeginTime", 20.0),)
    assert waits.spent(FIRST, 140.0) == (("BeginTime", 30.0), ("Resources", 10.0))
    waits.park(FIRST, WaitReason.HELD, 110.0)
    waits.park(FIRST, WaitReason.BEGIN_TIME, 115.0, until=130.0)
    assert waits.spent(FIRST, 140.0) == (("BeginTime", 25.0), ("Held", 5.0), ("Resources", 10.0))


def test_time_that_nobody_took_down_is_said_to_be_unrecorded() -> None:
    assert book((160.0, WaitReason.RESOURCES)).spent(FIRST, 170.0) == (("Unrecorded", 60.0), ("Resources", 10.0))
    assert book().spent(FIRST, 100.5) == ()


def test_a_group_is_remembered_until_two_plans_did_not_hold_it() -> None:
    waits = book((100.0, WaitReason.RESOURCES))
    waits.note([], 110.0)
    assert waits.spent(FIRST, 110.0) == (("Resources", 10.0),)
    waits.note([], 111.0)
    assert waits.spent(FIRST, 111.0) == (("Unrecorded", 11.0),)


def test_a_job_that_waits_again_keeps_its_earlier_waits_and_not_the_time_it_ran() -> None:
    waits = WaitBook()
    again = replace(FIRST, waited=(("Resources", 10.0),), ended_at=3710.0)
    waits.reopen("1", 3710.0)
    waits.park(FIRST, WaitReason.BACKOFF, 3710.0)
    waits.park(FIRST, None, 3712.0)
    waits.note([(FIRST, WaitReason.RESOURCES)], 3712.0)
    assert waits.spent(again, 3715.0) == (("Resources", 13.0), ("Backoff", 2.0))


def test_after_a_restart_the_end_of_the_last_attempt_is_where_the_wait_began_again() -> None:
    again = replace(FIRST, waited=(("Resources", 10.0),), ended_at=3710.0)
    assert WaitBook().spent(again, 3715.0) == (("Resources", 10.0), ("Unrecorded", 5.0))


def test_a_job_that_is_changed_keeps_the_book_of_its_wait_so_far() -> None:
    waits = book((100.0, WaitReason.PRIORITY), (110.0, WaitReason.RESOURCES))
    waits.park(FIRST, WaitReason.HELD, 115.0)
    waits.park(FIRST, None, 118.0)
    changed = replace(FIRST, spec=replace(FIRST.spec, name="new"))
    waits.carry_over(FIRST, 120.0)
    waits.park(FIRST, None, 120.0)
    waits.note([(changed, WaitReason.LIMIT)], 120.0)
    assert waits.spent(changed, 130.0) == (("Priority", 10.0), ("Resources", 7.0), ("Held", 3.0), ("Limit", 10.0))
    assert waits.spent(SECOND, 130.0) == (("Priority", 10.0), ("Resources", 20.0))


def test_what_a_job_waited_for_before_it_was_parked_stays_known_when_no_other_is_like_it() -> None:
    waits = book((100.0, WaitReason.RESOURCES))
    waits.park(FIRST, WaitReason.HELD, 120.0)
    for now in (121.0, 122.0, 123.0):
        waits.note([], now)
    assert waits.spent(FIRST, 130.0) == (("Resources", 20.0), ("Held", 10.0))
    waits.park(FIRST, None, 140.0)
    waits.note([(FIRST, WaitReason.PRIORITY)], 140.0)
    waits.park(FIRST, WaitReason.HELD, 150.0)
    for now in (151.0, 152.0, 153.0):
        waits.note([], now)
    assert waits.spent(FIRST, 160.0) == (("Resources", 20.0), ("Held", 30.0), ("Priority", 10.0))


def test_a_job_that_is_planned_to_start_and_does_not_waits_on_for_the_same_reason() -> None:
    waits = book((100.0, WaitReason.RESOURCES))
    for now in (110.0, 111.0, 112.0):
        waits.note([], now, starting=[FIRST])
    assert waits.spent(FIRST, 115.0) == (("Resources", 15.0),)
