"""A node that gives no log holds up no other request."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.api.user_threads import THREADS_OF_A_USER
from corral.clock import SystemClock
from corral.model.fact import JobChanged
from corral.model.job import Phase
from corral.node.simulated_node import SimulatedNode
from corral.ports.ledger import Decided
from corral.ports.node import LogChunk
from corral.runtimes.simulated import SimulatedRuntime
from tests.api.world import PATIENCE_S, Served, World

THREADS_OF_ALL_REQUESTS = 40
"""AnyIO's default."""


class HungNode(SimulatedNode):
    """Gives no log until `answers` is set; `begun` counts who waits for one."""

    def __init__(self) -> None:
        super().__init__(SimulatedRuntime(SystemClock()), SystemClock())
        self.answers = threading.Event()
        self.begun = threading.Semaphore(0)

    def read_log(self, job_id: str, rank: int, offset: int, max_bytes: int) -> LogChunk:
        self.begun.release()
        self.answers.wait(PATIENCE_S)
        return LogChunk("", 0)


@pytest.fixture
def hung() -> Iterator[HungNode]:
    hung = HungNode()
    yield hung
    hung.answers.set()


@pytest.fixture
def world(home: Path, hung: HungNode) -> Iterator[World]:
    world = World(home, hung)
    yield world
    world.close()


@pytest.mark.parametrize("what", ["logs", "why"])
def test_requests_that_wait_for_a_log_leave_threads_to_all_others(served: Served, hung: HungNode, what: str) -> None:
    job_id = served.submit()
    failed = JobChanged(job_id, {"phase": Phase.FAILED}, at=1.0, by="test")
    served.world.ledger.commit(lambda _: Decided((failed,), None)).result()
    held_up = [
        threading.Thread(target=served.call, args=("GET", f"/jobs/{job_id}/{what}"))
        for _ in range(THREADS_OF_ALL_REQUESTS + 5)
    ]
    for thread in held_up:
        thread.start()
    for _ in range(THREADS_OF_A_USER):
        assert hung.begun.acquire(timeout=PATIENCE_S)
    (row,) = served.call("GET", "/jobs?all=1").data["jobs"]
    assert (row["id"], hung.answers.is_set()) == (job_id, False)
    assert all(thread.is_alive() for thread in held_up)
    hung.answers.set()
    for thread in held_up:
        thread.join(PATIENCE_S)
