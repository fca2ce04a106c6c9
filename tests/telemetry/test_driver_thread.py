"""Calls that may never come back."""

import threading
import time

import pytest

from corral.telemetry.driver_thread import MAX_HUNG, CallHung, DriverThread

GIVE_UP_S = 0.02


@pytest.fixture
def answer() -> threading.Event:
    """Set when the driver answers again."""
    return threading.Event()


def hang(driver: DriverThread, answer: threading.Event) -> None:
    with pytest.raises(CallHung):
        driver.run(answer.wait, GIVE_UP_S)


def test_a_call_gives_back_what_it_returned() -> None:
    assert DriverThread(GIVE_UP_S).run(lambda: 42, 5.0) == 42


def test_a_call_raises_what_was_raised_in_it() -> None:
    with pytest.raises(ZeroDivisionError):
        DriverThread(GIVE_UP_S).run(lambda: 1 // 0, 5.0)


def test_calls_of_many_threads_are_made_one_after_the_other() -> None:
    driver, inside, most = DriverThread(5.0), [0], [0]

    def call() -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.001)
        inside[0] -= 1

    threads = [threading.Thread(target=driver.run, args=(call, 5.0)) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_a_call_that_hangs_is_left_after_the_timeout(answer: threading.Event) -> None:
    began = time.monotonic()
    hang(DriverThread(GIVE_UP_S), answer)
    answer.set()
    assert time.monotonic() - began < 10.0


def test_a_hung_thread_is_replaced(answer: threading.Event) -> None:
    driver = DriverThread(GIVE_UP_S)
    hang(driver, answer)
    time.sleep(GIVE_UP_S)
    assert driver.run(lambda: "fresh", 5.0) == "fresh"
    answer.set()


def test_a_call_that_nobody_waits_for_any_more_is_not_made(answer: threading.Event) -> None:
    driver, made = DriverThread(5.0), []
    hang(driver, answer)
    with pytest.raises(CallHung):
        driver.run(lambda: made.append("late"), GIVE_UP_S)
    answer.set()
    driver.run(lambda: None, 5.0)
    assert made == []


def test_no_more_than_so_many_threads_hang_and_the_driver_is_used_again_when_it_answers(
    answer: threading.Event,
) -> None:
    driver, before = DriverThread(GIVE_UP_S), set(threading.enumerate())
    for _ in range(MAX_HUNG + 3):
        hang(driver, answer)
        time.sleep(GIVE_UP_S)
    assert [thread.name for thread in threading.enumerate() if thread not in before] == ["driver-calls"] * MAX_HUNG
    answer.set()
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline:
        try:
            assert driver.run(lambda: "again", 1.0) == "again"
            break
        except CallHung:
            time.sleep(GIVE_UP_S)
    else:
        pytest.fail("the driver answers and is not used")
    driver.close()
