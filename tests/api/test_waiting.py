import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import pytest

from corral.api.answers.waiting import EndedJobs, EndSignal, wait_until
from corral.core.model.fact import JobChanged
from corral.core.model.jobs.phase import Phase
from corral.core.model.view import View
from tests.api.world import PATIENCE_S


def ended(job_id: str, phase: Phase = Phase.SUCCEEDED) -> JobChanged:
    return JobChanged(job_id, {"phase": phase}, at=1.0, by="test")


def woke(watched: str, change: JobChanged) -> bool:
    """Whether a waiter for `watched` is woken by the change, told from another thread."""

    async def look() -> bool:
        signal = EndSignal()
        with signal.waiter([watched]) as waiter:
            await asyncio.to_thread(signal.on_change, View(), [change])
            # The wake-up from that thread comes before the news that the thread is done.
            return await waiter.woken(0.0)

    return asyncio.run(look())


def test_the_end_of_a_job_wakes_those_who_wait_for_it() -> None:
    assert woke("7", ended("7"))


def test_every_way_to_end_rings() -> None:
    assert all(woke("7", ended("7", phase)) for phase in Phase if phase.terminal)


def test_a_step_that_is_no_end_wakes_nobody() -> None:
    assert not woke("7", ended("7", Phase.RUNNING))


def test_a_change_without_a_phase_wakes_nobody() -> None:
    assert not woke("7", JobChanged("7", {"held": True}, at=1.0, by="test"))


def test_another_jobs_end_wakes_nobody() -> None:
    assert not woke("7", ended("70"))


def test_an_elements_end_wakes_those_who_wait_for_its_array() -> None:
    assert woke("7", ended("7_3"))


def test_a_ring_before_the_wait_is_not_lost() -> None:
    async def look() -> bool:
        signal = EndSignal()
        with signal.waiter(["7"]) as waiter:
            signal.on_change(View(), [ended("7")])
            await asyncio.sleep(0.01)
            return await waiter.woken(0.0)

    assert asyncio.run(look())


def test_many_rings_before_the_waiter_looks_reach_its_loop_once() -> None:
    async def look() -> tuple[int, int]:
        signal, loop = EndSignal(), asyncio.get_running_loop()
        calls: list[Any] = []
        with signal.waiter(["7", "8"]) as waiter, pytest.MonkeyPatch.context() as patch:
            usual = loop.call_soon_threadsafe

            def counted(call: Callable[[], None]) -> None:
                calls.append(call)
                usual(call)

            patch.setattr(loop, "call_soon_threadsafe", counted)
            signal.on_change(View(), [ended("7"), ended("8")])
            signal.on_change(View(), [ended("7")])
            before = len(calls)
            assert await waiter.woken(PATIENCE_S)
            signal.on_change(View(), [ended("8")])
            assert await waiter.woken(PATIENCE_S)
        return before, len(calls)

    assert asyncio.run(look()) == (1, 2)


def test_a_waiter_that_is_done_is_forgotten() -> None:
    async def look() -> EndSignal:
        signal = EndSignal()
        with signal.waiter(["7", "7_1", "8"]):
            pass
        return signal

    signal = asyncio.run(look())
    signal.on_change(View(), [ended("7")])
    assert not signal._waiters


def test_a_ring_after_the_loop_has_closed_does_no_harm() -> None:
    async def look() -> Any:
        return signal.waiter(["7"]).__enter__()

    signal = EndSignal()
    asyncio.run(look())
    signal.on_change(View(), [ended("7")])


def waited(answers: Iterator[bool], timeout_s: float, signal: EndSignal | None = None) -> tuple[int, float]:
    """How often it was asked whether it is over, and how long the wait took."""
    signal = signal or EndSignal()
    count = 0

    async def over() -> bool:
        nonlocal count
        count += 1
        return next(answers)

    async def wait() -> None:
        with signal.waiter(["1"]) as waiter:
            await wait_until(over, waiter, signal, timeout_s)

    began = time.monotonic()
    asyncio.run(wait())
    return count, time.monotonic() - began


def test_what_is_over_already_is_not_waited_for() -> None:
    count, took_s = waited(iter([True]), 2 * PATIENCE_S)
    assert count == 1
    assert took_s < PATIENCE_S


def test_a_wait_ends_when_its_time_is_up() -> None:
    _, took_s = waited(iter([False] * 10), 0.1)
    assert 0.1 <= took_s < PATIENCE_S


def test_a_server_that_stops_lets_nobody_wait() -> None:
    signal = EndSignal()
    timer = threading.Timer(0.05, signal.close)
    timer.start()
    _, took_s = waited(repeat(False), 2 * PATIENCE_S, signal)
    timer.join()
    assert took_s < PATIENCE_S


def test_many_ends_at_once_cost_few_looks() -> None:
    signal = EndSignal()
    looks = 0

    async def over() -> bool:
        nonlocal looks
        looks += 1
        await asyncio.sleep(0.01)
        return False

    async def ends_come_in() -> None:
        for _ in range(200):
            signal.on_change(View(), [ended("1_5")])
            await asyncio.sleep(0.001)

    async def both() -> None:
        with signal.waiter(["1"]) as waiter:
            await asyncio.gather(wait_until(over, waiter, signal, 0.4), ends_come_in())

    asyncio.run(both())
    assert looks < 20


def test_of_many_jobs_only_the_first_that_has_not_ended_is_looked_at() -> None:
    live = {"2", "4"}
    asked: list[str] = []

    def is_live(job_id: str) -> bool:
        asked.append(job_id)
        return job_id in live

    open_jobs = EndedJobs(["1", "2", "3", "4"], is_live)
    assert not open_jobs.all()
    live.discard("4")
    assert not open_jobs.all()
    live.discard("2")
    assert open_jobs.all()
    assert asked == ["1", "2", "2", "2", "3", "4"]
