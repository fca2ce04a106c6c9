"""A host that hangs holds up nobody else, whether files of a submission are asked for or logs."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.api.requests.user_threads import THREADS_OF_A_USER
from corral.clock import SystemClock
from corral.core.model.fact import JobChanged
from corral.core.model.jobs.phase import Phase
from corral.core.ports.host import Credentials, FileQuery
from corral.core.ports.ledger import Decided
from corral.core.ports.node import FileFinding, LogChunk
from corral.host.node.mock.simulated_node import SimulatedHost, SimulatedLogs, SimulatedNode
from corral.host.runtimes.simulated import SimulatedRuntime
from tests.api.world import PATIENCE_S, Served, World

HUNG = "/hung/file/server"
THREADS_OF_ALL_REQUESTS = 40
"""AnyIO's default."""


class HungLogs(SimulatedLogs):
    def __init__(self, node: "HungNode") -> None:
        super().__init__(node)
        self._hang = node.hang

    def read(self, job_id: str, rank: int, offset: int, max_bytes: int, mark: str) -> LogChunk:
        self._hang()
        return LogChunk("", 0)


class HungFiles(SimulatedHost):
    def __init__(self, node: "HungNode") -> None:
        super().__init__(node)
        self._hang = node.hang

    def inspect(self, queries: tuple[FileQuery, ...], who: Credentials | None) -> tuple[FileFinding, ...]:
        if FileQuery(directory=HUNG) not in queries:
            return super().inspect(queries, who)
        self._hang()
        return ()


class HungNode(SimulatedNode):
    """Gives no log, and nothing of one directory, until `answers` is set; `begun` counts who waits."""

    def __init__(self) -> None:
        super().__init__(SimulatedRuntime(SystemClock()), SystemClock())
        self.answers = threading.Event()
        self.begun = threading.Semaphore(0)
        self.parts |= {"logs": HungLogs(self), "host": HungFiles(self)}

    def hang(self) -> None:
        self.begun.release()
        self.answers.wait(PATIENCE_S)


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


def test_a_directory_that_hangs_holds_up_nobody_else(served: Served, hung: HungNode) -> None:
    held_up = [threading.Thread(target=served.submit, kwargs={"workdir": HUNG}) for _ in range(30)]
    for thread in held_up:
        thread.start()
    for _ in range(THREADS_OF_A_USER):
        assert hung.begun.acquire(timeout=PATIENCE_S)
    assert served.call("GET", "/jobs").data["jobs"] == []
    assert served.call("GET", "/devices").status == 200
    assert not hung.answers.is_set()
    assert all(thread.is_alive() for thread in held_up)
    assert not hung.begun.acquire(blocking=False), "one user has no more threads than these"
    hung.answers.set()
    for thread in held_up:
        thread.join(PATIENCE_S)
    assert len(served.call("GET", "/jobs").data["jobs"]) == 30


@pytest.mark.parametrize("what", ["logs", "why"])
def test_requests_that_wait_for_a_log_leave_threads_to_all_others(served: Served, hung: HungNode, what: str) -> None:
    job_id = served.submit()
    failed = JobChanged(job_id, {"phase": Phase.FAILED, "attempts": 1}, at=1.0, by="test")
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
