"""Results of a batch come to the event loop together."""

import asyncio
from concurrent.futures import CancelledError, Future
from unittest.mock import patch

import pytest

from corral.api.requests.batch_results import BatchResults


def waiting(results: BatchResults, futures: list[Future[int]]) -> list[asyncio.Task[int]]:
    return [asyncio.create_task(results.of(future)) for future in futures]


def test_a_whole_batch_wakes_the_loop_once_and_each_who_waits_gets_its_own() -> None:
    async def wait() -> tuple[list[int], int]:
        futures: list[Future[int]] = [Future() for _ in range(5)]
        tasks = waiting(BatchResults(), futures)
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        with patch.object(loop, "call_soon_threadsafe", wraps=loop.call_soon_threadsafe) as wake:
            for number, future in enumerate(futures):
                future.set_result(number)
        return await asyncio.gather(*tasks), wake.call_count

    assert asyncio.run(wait()) == ([0, 1, 2, 3, 4], 1)


def test_the_next_batch_wakes_it_again() -> None:
    async def wait() -> list[int]:
        results, told = BatchResults(), []
        for number in range(3):
            future: Future[int] = Future()
            (task,) = waiting(results, [future])
            await asyncio.sleep(0)
            future.set_result(number)
            told.append(await task)
        return told

    assert asyncio.run(wait()) == [0, 1, 2]


def test_what_was_there_before_is_told_too() -> None:
    async def wait() -> int:
        future: Future[int] = Future()
        future.set_result(7)
        return await BatchResults().of(future)

    assert asyncio.run(wait()) == 7


def test_what_a_commit_raises_is_raised_where_it_is_waited_for() -> None:
    async def wait() -> None:
        future: Future[int] = Future()
        (task,) = waiting(BatchResults(), [future])
        await asyncio.sleep(0)
        future.set_exception(ValueError("the queue is full"))
        await task

    with pytest.raises(ValueError, match="the queue is full"):
        asyncio.run(wait())


def test_who_waits_no_more_takes_back_what_was_not_begun() -> None:
    async def wait() -> Future[int]:
        future: Future[int] = Future()
        (task,) = waiting(BatchResults(), [future])
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return future

    with pytest.raises(CancelledError):
        asyncio.run(wait()).result(0)
