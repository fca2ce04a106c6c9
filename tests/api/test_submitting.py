"""Submitting waits for files on threads, of which nobody gets all."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.api.user_threads import THREADS_OF_A_USER
from corral.clock import SystemClock
from corral.control.submitting import file_findings
from corral.node.simulated_node import SimulatedNode
from corral.ports.host import Credentials, FileQuery
from corral.ports.node import FileFinding
from corral.runtimes.simulated import SimulatedRuntime
from tests.api.world import PATIENCE_S, Served, World

HUNG = "/hung/file/server"


class HungNode(SimulatedNode):
    """Reads a directory whose file server does not answer until `answers` is set; `begun` counts who waits."""

    def __init__(self) -> None:
        super().__init__(SimulatedRuntime(SystemClock()), SystemClock())
        self.answers = threading.Event()
        self.begun = threading.Semaphore(0)

    def inspect(self, queries: tuple[FileQuery, ...], who: Credentials | None) -> tuple[FileFinding, ...]:
        if FileQuery(directory=HUNG) not in queries:
            return super().inspect(queries, who)
        self.begun.release()
        self.answers.wait(PATIENCE_S)
        return ()


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
