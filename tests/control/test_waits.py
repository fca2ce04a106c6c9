from corral.control.waits import WaitBook
from corral.model.plan import Hold, WaitReason


def hold(reason: WaitReason) -> Hold:
    return Hold("1", reason, position=1)


def test_a_wait_is_spent_by_reason_in_the_order_the_reasons_came() -> None:
    book = WaitBook()
    book.note([hold(WaitReason.PRIORITY)], 100.0)
    book.note([hold(WaitReason.RESOURCES)], 110.0)
    book.note([hold(WaitReason.RESOURCES)], 120.0)
    book.note([hold(WaitReason.PRIORITY)], 130.0)
    assert book.spent("1", 100.0, 135.0) == (("Priority", 15.0), ("Resources", 20.0))


def test_time_that_nobody_took_down_is_said_to_be_unrecorded() -> None:
    book = WaitBook()
    book.note([hold(WaitReason.RESOURCES)], 160.0)
    assert book.spent("1", 100.0, 170.0) == (("Unrecorded", 60.0), ("Resources", 10.0))


def test_a_closed_book_holds_nothing() -> None:
    book = WaitBook()
    book.note([hold(WaitReason.RESOURCES)], 100.0)
    book.close("1")
    assert book.spent("1", 100.0, 100.5) == ()
