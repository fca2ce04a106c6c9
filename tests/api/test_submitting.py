"""Submitting looks at the files that a submission names."""

import asyncio
import threading
from concurrent.futures import CancelledError, Future
from typing import Any
from unittest.mock import patch

import pytest

from corral.api.requests.submitting import BatchResults
from corral.core.control.submitting import file_findings
from tests.api.world import Served


def test_a_directory_that_has_gone_is_noticed_once_what_was_seen_is_old(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = served.world.home.root / "work"
    directory.mkdir()
    served.submit(workdir=str(directory))
    directory.rmdir()
    monkeypatch.setattr(file_findings, "TRUST_S", 0.0)
    answer = served.call("POST", "/jobs", {"command": ["true"], "workdir": str(directory)})
    assert (answer.status, answer.error["field"]) == (422, "workdir")


def test_a_single_job_is_made_on_the_event_loop_and_an_array_beside_it(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    submit = served.world.service.submit_inspected

    def noted(*args: Any) -> Any:
        threads.append(threading.current_thread())
        return submit(*args)

    monkeypatch.setattr(served.world.service, "submit_inspected", noted)
    served.submit(workdir="/")
    served.submit(workdir="/")
    served.submit(workdir="/", array={"indices": [0, 1]})
    assert threads[1] is served.thread
    assert threads[2] is not served.thread


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
