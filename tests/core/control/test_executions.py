"""Who may run a command inside which job, how many at once, and what of it is written down."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.core.access.caller import Caller
from corral.core.control.launching.attempts import Attempts
from corral.core.control.launching.environment import launches_of
from corral.core.control.running import executions as module
from corral.core.control.running.executions import KEPT_CHARACTERS, MOST_BYTES, MOST_OF_A_JOB, SHELL, Executions
from corral.core.model.errors import BackendFailed, Conflict, Forbidden, NodeUnreachable, NotFound, Refused
from corral.core.model.fact import CommandExecuted
from corral.core.model.jobs.input import TerminalSize
from corral.core.model.jobs.job import JobKind
from corral.core.ports.runtime import InnerCommand
from tests.core.control.test_interaction import ALICE, BOB, ROOT, Found, World

COMMAND = InnerCommand(("nvidia-smi", "-q x"))


class Inside(World):
    """The world of signals and input, with commands."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        attempts = Attempts(self.ledger, launches_of)
        found = Found(self.ledger)
        agent_of = self.interaction.agent_of
        self.executions = Executions(self.ledger, found, attempts, self.clock, agent_of)  # type: ignore[arg-type]

    def begin(self, command: InnerCommand = COMMAND, *, rank: int = 0, caller: Caller = ALICE) -> str:
        return self.executions.begin("1", command, rank, caller)

    def told(self) -> list[CommandExecuted]:
        """What the journal has."""
        facts = [entry.fact for entry in self.ledger.latest_entries("1", 1000)]
        return [fact for fact in facts if isinstance(fact, CommandExecuted)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Inside]:
    made = Inside(tmp_path)
    yield made
    made.ledger.close()


def test_a_command_runs_in_the_launch_of_its_member_and_is_written_down_first(world: Inside) -> None:
    world.add()
    exec_id = world.begin()
    assert world.node.commands == {exec_id: ("1.1", COMMAND)}
    (fact,) = world.told()
    assert (fact.command, fact.by, fact.at, fact.rank) == ("nvidia-smi '-q x'", "alice", 1000.0, 0)


def test_without_words_it_is_a_shell(world: Inside) -> None:
    world.add()
    exec_id = world.begin(InnerCommand((), TerminalSize(), "xterm"))
    assert world.node.commands[exec_id] == ("1.1", InnerCommand(SHELL, TerminalSize(), "xterm"))
    assert world.told()[0].command == ""


def test_only_the_jobs_user_and_administrators_may(world: Inside) -> None:
    world.add()
    with pytest.raises(Forbidden, match="belongs to alice"):
        world.begin(caller=BOB)
    exec_id = world.begin(caller=ROOT)
    assert world.told()[0].by == "root"
    for act in (
        lambda: world.executions.follow("1", exec_id, BOB),
        lambda: world.executions.write("1", exec_id, 0, b"x", end=False, caller=BOB),
        lambda: world.executions.resize("1", exec_id, TerminalSize(), BOB),
    ):
        with pytest.raises(Forbidden):
            act()


def test_a_command_of_another_job_is_not_found(world: Inside) -> None:
    world.add()
    world.begin()
    with pytest.raises(NotFound):
        world.executions.follow("1", "0" * 16, ALICE)


def test_what_waits_takes_no_command(world: Inside) -> None:
    world.add(runs=False)
    with pytest.raises(Conflict, match="has not started; `corral why 1`"):
        world.begin()
    assert world.told() == []


@pytest.mark.parametrize(
    ("kind", "said"), [(JobKind.RESERVE, "`corral run"), (JobKind.ADOPT, "only inside jobs that Corral has started")]
)
def test_what_corral_did_not_start_takes_no_command(world: Inside, kind: JobKind, said: str) -> None:
    world.add(kind=kind)
    with pytest.raises(Conflict, match=said):
        world.begin()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (InnerCommand(("",)), "is empty"),
        (InnerCommand(("a\0b",)), "NUL"),
        (InnerCommand(("x" * MOST_BYTES,)), "put it into a file"),
        (InnerCommand(("top",), TerminalSize(0, 80)), "rows"),
        (InnerCommand(("top",), TerminalSize(), "x\n"), "term"),
        (InnerCommand(("top",), TerminalSize(), "x" * 65), "term"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_written(
    world: Inside, command: InnerCommand, said: str
) -> None:
    world.add()
    with pytest.raises(Refused, match=said):
        world.begin(command)
    assert (world.told(), world.node.commands) == ([], {})


def test_a_member_that_is_not_there_is_named(world: Inside) -> None:
    world.add()
    with pytest.raises(Refused, match="job 1 has rank 0 alone, not 1"):
        world.begin(rank=1)


def test_of_a_long_command_the_beginning_is_kept(world: Inside) -> None:
    world.add()
    world.begin(InnerCommand(("echo", "\udcff" + "x" * 5000)))
    assert len(world.told()[0].command) < KEPT_CHARACTERS + 10


def test_one_more_than_may_run_in_a_job_waits_for_another_to_end(world: Inside) -> None:
    world.add()
    ids = [world.begin() for _ in range(MOST_OF_A_JOB)]
    with pytest.raises(Conflict, match=f"{MOST_OF_A_JOB} commands run inside job 1"):
        world.begin()
    world.executions.end(ids[0])
    world.begin()
    assert ids[0] not in world.node.commands


def test_commands_whose_output_nobody_asks_for_take_no_place(world: Inside) -> None:
    world.add()
    for _ in range(MOST_OF_A_JOB):
        world.begin()
    world.clock.advance(module.UNCLAIMED_S + 1)
    world.begin()


def test_a_command_that_is_slow_to_begin_is_not_taken_for_one_that_nobody_wants(world: Inside) -> None:
    world.add()
    begin = world.node.executions.begin

    def slowly(exec_id: str, launch_id: str, command: InnerCommand) -> None:
        world.clock.advance(module.UNCLAIMED_S + 1)
        world.node.executions.begin = begin  # type: ignore[method-assign]
        world.begin()
        begin(exec_id, launch_id, command)

    world.node.executions.begin = slowly  # type: ignore[method-assign]
    assert world.executions.follow("1", world.begin(), ALICE) is not None


def test_a_user_has_a_limit_in_all_jobs_together(world: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OF_A_USER", 2)
    world.add()
    world.begin()
    world.begin()
    with pytest.raises(Conflict, match="inside your jobs"):
        world.begin()
    world.begin(caller=ROOT)


def test_a_command_that_did_not_begin_takes_no_place(world: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise NodeUnreachable("it does not answer")

    world.add()
    monkeypatch.setattr(world.node.executions, "begin", fail)
    for _ in range(2 * MOST_OF_A_JOB):
        with pytest.raises(NodeUnreachable):
            world.begin()


def test_output_is_followed_by_one(world: Inside) -> None:
    world.add()
    exec_id = world.begin()
    followed = world.executions.follow("1", exec_id, ALICE)
    assert followed.read().exit_code is None
    with pytest.raises(Conflict, match="already"):
        world.executions.follow("1", exec_id, ALICE)
    followed.close()
    assert world.node.commands == {}
    with pytest.raises(BackendFailed, match="no longer knows"):
        followed.read()
