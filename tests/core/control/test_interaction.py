"""Signals and input for jobs on simulated nodes, and the watch over who sends input, over a real ledger."""

import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.core.access.caller import Caller
from corral.core.control.launching.attempts import Attempts
from corral.core.control.launching.environment import launches_of
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.running.interaction import Interaction
from corral.core.control.watching.absent_clients import ABSENT_S, AbsentClients
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.lifecycle import starting
from corral.core.model.answers.job_changes import InputProgress
from corral.core.model.errors import Conflict, Forbidden, NodeUnreachable, NotFound, Refused
from corral.core.model.fact import JobSubmitted
from corral.core.model.jobs.input import InputState, TerminalSize
from corral.core.model.jobs.job import Job, JobKind
from corral.core.model.jobs.phase import Phase
from corral.core.ports.ledger import Decided
from corral.core.ports.node import InputTaken
from corral.host.node.mock.simulated_node import SimulatedInputs, SimulatedNode
from corral.host.runtimes.simulated import SimulatedRuntime
from tests.core.control.strategies import job
from tests.core.lifecycle.taken_steps import place

ALICE, BOB, ROOT = Caller("alice"), Caller("bob"), Caller("root", admin=True)
WAITING, OPEN, CLOSED = InputState.WAITING, InputState.OPEN, InputState.CLOSED


class InputsInMemory(SimulatedInputs):
    """Takes `room` bytes at a time."""

    def __init__(self) -> None:
        self.got = b""
        self.room = 100
        self.begun = True
        self.open = True

    def write(self, launch_id: str, offset: int, data: str, *, end: bool) -> InputTaken | None:
        if not self.begun:
            return None
        new = base64.b64decode(data)[len(self.got) - offset :][: self.room]
        self.got += new
        self.open = self.open and not (end and len(new) < self.room)
        return InputTaken(len(self.got), self.open)


class Found:
    """Jobs as `Queries.find` finds them."""

    def __init__(self, ledger: SqlLedger) -> None:
        self._ledger = ledger

    def find(self, job_id: str) -> Job:
        found = self._ledger.find_job(job_id)
        if found is None:
            raise NotFound("there is none")
        return found


class World:
    """A ledger with one node, and jobs as the test says."""

    def __init__(self, root: Path) -> None:
        self.clock = ManualClock(1000.0)
        self.node = SimulatedNode(SimulatedRuntime(self.clock), self.clock)
        self.node.parts["inputs"] = self.taken = InputsInMemory()
        self.ledger = open_ledger(f"sqlite:///{root / 'ledger.db'}")
        attempts = Attempts(self.ledger, launches_of)
        nodes = Nodes({"box": self.node})
        self.interaction = Interaction(self.ledger, Found(self.ledger), nodes, attempts, self.clock)  # type: ignore[arg-type]
        self.stopped: list[str] = []
        self.watch = AbsentClients(self.ledger, self.clock, self.interaction, self.stopped.append)

    def add(self, *, runs: bool = True, **spec: object) -> None:
        """Job 1, which runs or waits."""
        one = job(1)
        one = replace(one, spec=replace(one.spec, **spec))  # type: ignore[arg-type]
        self.ledger.commit(lambda _: Decided((JobSubmitted(one, at=100.0, by="alice"),), None)).result()
        if runs:
            start = starting.start(one, place(0), by="test", at=200.0)
            self.ledger.commit(lambda _: Decided(tuple(start), None)).result()
            (attempt,) = Attempts(self.ledger, launches_of).live()
            self.node.runtime.launch(attempt.launches[0])

    @property
    def phase(self) -> Phase:
        return self.job.phase

    @property
    def job(self) -> Job:
        found = self.ledger.find_job("1")
        assert found is not None
        return found

    def give(self, offset: int, data: bytes, *, end: bool = False, caller: Caller = ALICE) -> InputProgress:
        return self.interaction.write_input("1", offset, data, end, caller)

    def look_for(self, seconds: float) -> None:
        """Look every five seconds for so long."""
        for _ in range(int(seconds / 5)):
            self.clock.advance(5)
            self.watch.look()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.ledger.close()


def test_a_signal_goes_to_a_job_that_runs(world: World) -> None:
    world.add()
    world.interaction.signal("1", "INT", ALICE)
    world.interaction.signal("1", "USR1", ROOT)
    assert world.node.signals == [("1.1", "INT"), ("1.1", "USR1")]


def test_a_signal_is_for_the_users_own_jobs_and_one_of_a_few(world: World) -> None:
    world.add()
    with pytest.raises(Forbidden):
        world.interaction.signal("1", "INT", BOB)
    with pytest.raises(Refused, match="use one of INT, TERM"):
        world.interaction.signal("1", "KILL", ALICE)
    assert world.node.signals == []


def test_what_does_not_run_cannot_be_signalled(world: World) -> None:
    world.add(runs=False)
    with pytest.raises(Conflict, match="job 1 is PENDING; only a job that runs"):
        world.interaction.signal("1", "INT", ALICE)


def test_a_reservation_is_sent_no_signal(world: World) -> None:
    world.add(kind=JobKind.RESERVE)
    with pytest.raises(Conflict, match="only to jobs that Corral has started"):
        world.interaction.signal("1", "INT", ALICE)


def test_input_waits_for_the_job_then_goes_to_it_as_far_as_it_takes_it(world: World) -> None:
    world.add(stdin=True)
    world.taken.begun = False
    assert world.give(0, b"abc") == InputProgress(0, WAITING)
    assert not world.job.input_taken
    world.taken.begun = True
    world.taken.room = 2
    assert world.give(0, b"") == InputProgress(0, OPEN)
    assert not world.job.input_taken
    assert world.give(0, b"abc") == InputProgress(2, OPEN)
    assert world.job.input_taken
    assert world.give(2, b"c", end=True) == InputProgress(3, CLOSED)
    assert world.taken.got == b"abc"


def test_input_is_for_the_users_own_jobs_that_take_some(world: World) -> None:
    world.add(stdin=True)
    with pytest.raises(Forbidden):
        world.give(0, b"abc", caller=BOB)
    with pytest.raises(Refused):
        world.give(-1, b"abc")
    assert world.taken.got == b""
    assert world.give(0, b"abc", caller=ROOT).offset == 3


def test_a_job_that_takes_no_input_says_so(world: World) -> None:
    world.add()
    with pytest.raises(Conflict, match="takes no input"):
        world.give(0, b"abc")
    with pytest.raises(Conflict, match="has no terminal"):
        world.interaction.resize_terminal("1", TerminalSize(1, 1), ALICE)


def test_a_job_whose_sender_is_gone_for_a_minute_is_ended_and_says_why(world: World) -> None:
    world.add(stdin=True)
    world.look_for(30)
    world.give(0, b"")
    world.look_for(ABSENT_S - 5)
    assert world.phase is Phase.STARTING
    world.look_for(15)
    assert (world.phase, world.stopped) == (Phase.STOPPING, ["1.1"])
    assert world.job.reason == "the command that sent its input went away, and did not come back within 1m"


def test_a_waiting_job_whose_terminal_is_gone_is_cancelled(world: World) -> None:
    world.add(runs=False, terminal=TerminalSize())
    world.look_for(ABSENT_S + 10)
    assert world.phase is Phase.CANCELLED
    assert world.job.reason == "its terminal went away, and did not come back within 1m"
    assert world.stopped == []


def test_a_job_that_has_all_its_input_needs_nobody(world: World) -> None:
    world.add(stdin=True)
    world.give(0, b"abc", end=True)
    world.look_for(10 * ABSENT_S)
    assert world.phase is Phase.STARTING


def test_a_job_without_input_needs_nobody(world: World) -> None:
    world.add()
    world.look_for(10 * ABSENT_S)
    assert world.phase is Phase.STARTING


def test_a_job_on_a_node_that_does_not_answer_is_not_ended_for_its_sender(world: World) -> None:
    world.add(stdin=True)
    world.node.fall_silent()
    world.node._answer_within_s = 0.001
    world.look_for(ABSENT_S + 20)
    assert world.phase is Phase.STARTING
    with pytest.raises(NodeUnreachable):
        world.give(0, b"abc")
    world.node.answer_again()


def test_a_server_that_comes_back_gives_every_sender_its_minute_again(world: World) -> None:
    world.add(stdin=True)
    world.look_for(ABSENT_S - 10)
    world.watch = AbsentClients(world.ledger, world.clock, world.interaction, world.stopped.append)
    world.look_for(ABSENT_S)
    assert world.stopped == []
    world.look_for(15)
    assert world.stopped == ["1.1"]
