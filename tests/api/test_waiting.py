import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

from corral.api.waiting import EndSignal, Seen, wait_until_done
from corral.model.fact import JobChanged
from corral.model.job import Phase
from corral.model.view import View


def ended(job_id: str, phase: Phase = Phase.SUCCEEDED) -> JobChanged:
    return JobChanged(job_id, {"phase": phase}, 1.0)


def rang(watched: str, change: JobChanged) -> bool:
    """Whether a watch on `watched` rings at the change, told from another thread."""

    async def look() -> bool:
        signal = EndSignal()
        with signal.watch([watched]) as watch:
            threading.Thread(target=signal.on_change, args=(View(), [change])).start()
            return await watch.rung(0.2)

    return asyncio.run(look())


def test_the_end_of_a_job_rings_for_those_who_watch_it() -> None:
    assert rang("7", ended("7"))


def test_every_way_to_end_rings() -> None:
    assert all(rang("7", ended("7", phase)) for phase in Phase if phase.terminal)


def test_a_step_that_is_no_end_does_not_ring() -> None:
    assert not rang("7", ended("7", Phase.RUNNING))


def test_a_change_without_a_phase_does_not_ring() -> None:
    assert not rang("7", JobChanged("7", {"held": True}, 1.0))


def test_another_jobs_end_does_not_ring() -> None:
    assert not rang("7", ended("70"))


def test_an_elements_end_rings_for_those_who_watch_its_array() -> None:
    assert rang("7", ended("7_3"))


def test_a_ring_before_the_wait_is_not_lost() -> None:
    async def look() -> bool:
        signal = EndSignal()
        with signal.watch(["7"]) as watch:
            signal.on_change(View(), [ended("7")])
            await asyncio.sleep(0.01)
            return await watch.rung(0.0)

    assert asyncio.run(look())


def test_a_watch_that_is_over_is_forgotten() -> None:
    async def look() -> EndSignal:
        signal = EndSignal()
        with signal.watch(["7", "7_1", "8"]):
            pass
        return signal

    signal = asyncio.run(look())
    signal.on_change(View(), [ended("7")])
    assert not signal._watches


def test_a_ring_after_the_loop_has_closed_does_no_harm() -> None:
    async def look() -> Any:
        return signal.watch(["7"]).__enter__()

    signal = EndSignal()
    asyncio.run(look())
    signal.on_change(View(), [ended("7")])


def waited(looks: Iterator[bool], timeout_s: float, signal: EndSignal | None = None) -> tuple[bool, int, float]:
    """Whether it was done, how often it was looked at, and how long the wait took."""
    count = 0

    async def look() -> Seen:
        nonlocal count
        count += 1
        return next(looks), []

    began = time.monotonic()
    done, _ = asyncio.run(wait_until_done(look, signal or EndSignal(), ["1"], timeout_s))
    return done, count, time.monotonic() - began


def test_what_is_done_already_is_not_waited_for() -> None:
    done, count, took_s = waited(iter([True]), 20.0)
    assert (done, count) == (True, 1)
    assert took_s < 1.0


def test_a_wait_ends_when_its_time_is_up() -> None:
    done, _, took_s = waited(iter([False] * 10), 0.1)
    assert not done
    assert 0.1 <= took_s < 1.0


def test_without_time_there_is_one_look() -> None:
    assert waited(iter([False]), 0.0)[:2] == (False, 1)


def test_a_server_that_stops_lets_nobody_wait() -> None:
    signal = EndSignal()
    timer = threading.Timer(0.05, signal.close)
    timer.start()
    done, _, took_s = waited(iter([False] * 10), 20.0, signal)
    timer.join()
    assert not done
    assert took_s < 1.0


def test_many_ends_at_once_cost_few_looks() -> None:
    signal = EndSignal()
    looks = 0

    async def look() -> Seen:
        nonlocal looks
        looks += 1
        await asyncio.sleep(0.01)
        return False, []

    async def ends_come_in() -> None:
        for _ in range(200):
            signal.on_change(View(), [ended("1_5")])
            await asyncio.sleep(0.001)

    async def both() -> None:
        await asyncio.gather(wait_until_done(look, signal, ["1"], 0.4), ends_come_in())

    asyncio.run(both())
    assert looks < 20
