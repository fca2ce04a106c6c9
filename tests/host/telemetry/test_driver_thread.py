"""Calls that may never come back."""

import threading
import time

import pytest

from corral.host.telemetry.driver_thread import MAX_HUNG, CallHung, DriverThread

GIVE_UP_S = 0.02
PATIENCE_S = 60.0
"""What has not come by then never will, however busy the machine."""


@pytest.fixture
def answer() -> threading.Event:
    """Set when the driver answers again."""
    return threading.Event()


def hang(driver: DriverThread, answer: threading.Event) -> None:
    """Return when a call is under way that nobody waits for any more; one that had not begun in time is never made."""
    begun = threading.Event()

    def call() -> None:
        begun.set()
        answer.wait()

    while not begun.is_set():
        with pytest.raises(CallHung):
            driver.run(call, GIVE_UP_S)


def answers_again(driver: DriverThread) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            assert driver.run(lambda: "again", 1.0) == "again"
            return
        except CallHung:
            time.sleep(GIVE_UP_S)
    pytest.fail("the driver answers and is not used")


def test_a_call_gives_back_what_it_returned() -> None:
    assert DriverThread(GIVE_UP_S).run(lambda: 42, PATIENCE_S) == 42


def test_a_call_raises_what_was_raised_in_it() -> None:
    with pytest.raises(ZeroDivisionError):
        DriverThread(GIVE_UP_S).run(lambda: 1 // 0, PATIENCE_S)


def test_calls_of_many_threads_are_made_one_after_the_other() -> None:
    driver, inside, most = DriverThread(PATIENCE_S), [0], [0]

    def call() -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.001)
        inside[0] -= 1

    threads = [threading.Thread(target=driver.run, args=(call, PATIENCE_S)) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_a_call_that_hangs_is_left_after_the_timeout(answer: threading.Event) -> None:
    hang(DriverThread(GIVE_UP_S), answer)
    answer.set()


def test_a_hung_thread_is_replaced(answer: threading.Event) -> None:
    driver = DriverThread(GIVE_UP_S)
    hang(driver, answer)
    answers_again(driver)
    answer.set()


def test_a_call_that_nobody_waits_for_any_more_is_not_made(answer: threading.Event) -> None:
    driver, made = DriverThread(PATIENCE_S), []
    hang(driver, answer)
    with pytest.raises(CallHung):
        driver.run(lambda: made.append("late"), GIVE_UP_S)
    answer.set()
    driver.run(lambda: None, PATIENCE_S)
    assert made == []


def test_no_more_than_so_many_threads_hang_and_the_driver_is_used_again_when_it_answers(
    answer: threading.Event,
) -> None:
    driver, before = DriverThread(GIVE_UP_S), set(threading.enumerate())

    def refused() -> bool:
        with pytest.raises(CallHung) as hung:
            driver.run(answer.wait, GIVE_UP_S)
        return f"{MAX_HUNG} calls hang" in str(hung.value)

    while not refused():
        pass
    assert [refused() for _ in range(3)] == [True] * 3
    started = [thread.name for thread in threading.enumerate() if thread not in before]
    assert started.count("driver-calls") == MAX_HUNG
    answer.set()
    answers_again(driver)
    driver.close()
