"""Commands that nobody asks after are ended, and no more of them run than a host may have."""

import threading
from collections.abc import Iterator

import pytest

from corral.core.model.errors import BackendFailed, Refused
from corral.core.model.jobs.input import TerminalSize
from corral.core.ports.node import ExecOutput
from corral.core.ports.runtime import InnerCommand, InnerOutput
from corral.host.node.launches import node_executions as module
from corral.host.node.launches.node_executions import MOST, NodeExecutions

COMMAND = InnerCommand(("true",))


class Played:
    """A command in memory."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def write(self, offset: int, data: bytes, *, end: bool) -> tuple[int, bool]:
        return offset + len(data), not end

    def read(self, after: int) -> InnerOutput:
        return InnerOutput(after + 1, b"out", b"\xff")

    def resize(self, size: TerminalSize) -> None:
        """It has no terminal."""

    def close(self) -> None:
        self.closed.set()


class World:
    def __init__(self) -> None:
        self.begun: list[Played] = []
        self.executions = NodeExecutions(self.execute)

    def execute(self, launch_id: str, command: InnerCommand) -> Played:
        self.begun.append(Played())
        return self.begun[-1]


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.executions.close()


def test_a_command_that_is_begun_twice_runs_once(world: World) -> None:
    for _ in range(2):
        world.executions.begin("x", "1.1", COMMAND)
    assert len(world.begun) == 1
    assert world.executions.read("x", 0) == ExecOutput(1, "b3V0", "/w==")


def test_a_command_that_nobody_asks_after_is_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNHEARD_S", 0.2)
    monkeypatch.setattr(module, "_LOOK_S", 0.01)
    world.executions.begin("x", "1.1", COMMAND)
    assert world.begun[0].closed.wait(60)
    assert world.executions.read("x", 0) is None
    world.executions.begin("y", "1.1", COMMAND)
    assert world.begun[1].closed.wait(60)


def test_a_command_that_is_asked_after_goes_on_until_it_is_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNHEARD_S", 5.0)
    monkeypatch.setattr(module, "_LOOK_S", 0.001)
    world.executions.begin("x", "1.1", COMMAND)
    for _ in range(20):
        assert not world.begun[0].closed.wait(0.005)
        world.executions.write("x", 0, "", end=False)
    world.executions.end("x")
    assert world.begun[0].closed.is_set()
    assert world.executions.write("x", 0, "", end=False) is None


def test_one_more_than_may_run_is_refused_and_a_failed_start_takes_no_place(world: World) -> None:
    for number in range(MOST):
        world.executions.begin(str(number), f"{number}.1", COMMAND)
    with pytest.raises(BackendFailed, match=f"{MOST} commands"):
        world.executions.begin("one more", "1.1", COMMAND)
    world.executions.end("0")
    world.executions.begin("one more", "1.1", COMMAND)


def test_a_start_that_fails_leaves_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(launch_id: str, command: InnerCommand) -> Played:
        raise BackendFailed("no")

    executions = NodeExecutions(fail)
    for number in range(2 * MOST):
        with pytest.raises(BackendFailed, match="no"):
            executions.begin(str(number), "1.1", COMMAND)


@pytest.mark.parametrize(("data", "offset"), [("!", 0), ("", -1), ("A" * 100_000, 0)])
def test_what_is_no_input_is_refused(world: World, data: str, offset: int) -> None:
    world.executions.begin("x", "1.1", COMMAND)
    with pytest.raises(Refused):
        world.executions.write("x", offset, data, end=False)
    with pytest.raises(Refused):
        world.executions.resize("x", TerminalSize(0, 80))


def test_all_end_with_the_agent(world: World) -> None:
    world.executions.begin("x", "1.1", COMMAND)
    world.executions.close()
    assert world.begun[0].closed.is_set()
