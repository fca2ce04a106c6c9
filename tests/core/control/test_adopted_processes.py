import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.clock import SystemClock
from corral.core.access.caller import Caller
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.running import adopted_processes
from corral.core.control.running.adopted_processes import NOT_LIMITED, Adoption, find_process, no_process
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.devices.device import DeviceProcess, DeviceSample, Silence
from corral.core.model.errors import Conflict, Forbidden, Refused
from corral.core.model.fact import ConditionObserved, NodeObserved, SilenceObserved
from corral.core.model.jobs.job import JobKind, ProcessIdentity
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.submission import Submission
from corral.core.ports.ledger import Decided
from corral.core.ports.node import ProcessFound
from corral.host.node.mock.simulated_node import SimulatedHost, SimulatedNode
from corral.host.runtimes.simulated import SimulatedRuntime
from tests.core.control.strategies import box

ALICE, BOB, ROOT = Caller("alice", 1000), Caller("bob", 1001), Caller("root", 0, admin=True)
# Above PID_MAX_LIMIT of Linux, 2**22: no process has such a pid, not even the one that runs these tests.
TRAINING, CHILD, IDLE, NOBODY, PARENT, OWN = range(2**22 + 1, 2**22 + 7)
SERVER = ProcessIdentity(OWN, 1, "boot")
ASKED = Submission(kind=JobKind.ADOPT, name="old")


def found(pid: int, *family: int) -> ProcessFound:
    return ProcessFound(ProcessIdentity(pid, 1, "boot"), ALICE.uid or 0, (pid, *family))


def one_training() -> SimulatedNode:
    """A process of alice, whose child works on GPU-1 and GPU-2; one that uses nothing; and the server's parent."""
    node = SimulatedNode(SimulatedRuntime(SystemClock()), SystemClock())
    node.processes = {
        TRAINING: found(TRAINING, CHILD), IDLE: found(IDLE), PARENT: found(PARENT, SERVER.pid),
    }  # fmt: skip
    return node


class AtWork:
    """Samples in which the child of the training uses two devices."""

    def latest(self) -> dict[str, DeviceSample]:
        at_work = (DeviceProcess(CHILD),)
        return {uuid: DeviceSample(uuid, 0.0, processes=at_work) for uuid in ("GPU-2", "GPU-1")}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqlLedger]:
    opened = open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    view = box()
    opened.observe([NodeObserved(view.nodes["box"]), *map(ConditionObserved, view.conditions.values())])
    opened.commit(lambda _: Decided((), None)).result()
    yield opened
    opened.close()


@pytest.fixture
def watched() -> list[str]:
    """The allocations that are looked after."""
    return []


@pytest.fixture
def adopting(ledger: SqlLedger, watched: list[str]) -> Adoption:
    nodes = Nodes({"box": one_training()})
    return Adoption(ledger, nodes, AtWork(), SystemClock(), server=SERVER, watch=watched.append)


def test_an_adopted_process_is_a_job_on_the_whole_devices_that_its_family_uses(
    adopting: Adoption, ledger: SqlLedger, watched: list[str]
) -> None:
    job_id = adopting.adopt(TRAINING, ALICE, ASKED)
    view = ledger.view()
    job = view.jobs[job_id]
    assert (job.phase, job.devices, job.spec.name, job.spec.user) == (
        Phase.STARTING, ("GPU-1", "GPU-2"), "old", "alice",
    )  # fmt: skip
    assert job.spec.owner == ProcessIdentity(TRAINING, 1, "boot")
    assert [view.allocated_milli(uuid) for uuid in ("GPU-0", "GPU-1", "GPU-2")] == [0, 1000, 1000]
    assert watched == [job.allocation_id]
    assert view.allocations[job.allocation_id or ""].enforcement == NOT_LIMITED


def test_a_process_is_adopted_once(adopting: Adoption, watched: list[str]) -> None:
    job_id = adopting.adopt(TRAINING, ALICE, ASKED)
    with pytest.raises(Conflict, match=f"is job {job_id} already"):
        adopting.adopt(TRAINING, ALICE, ASKED)
    assert len(watched) == 1


def test_another_users_process_is_for_administrators(adopting: Adoption) -> None:
    with pytest.raises(Forbidden, match="runs as user id 1000"):
        adopting.adopt(TRAINING, BOB, ASKED)
    assert adopting.adopt(TRAINING, ROOT, ASKED)


@pytest.mark.parametrize(
    ("pid", "why"),
    [(NOBODY, f"there is no process {NOBODY}"), (IDLE, "uses no GPU"), (PARENT, "is this Corral server")],
    ids=["nobody", "idle", "the server itself"],
)
def test_what_cannot_be_adopted_is_refused_with_the_reason(
    adopting: Adoption, ledger: SqlLedger, pid: int, why: str
) -> None:
    with pytest.raises(Refused, match=why):
        adopting.adopt(pid, ALICE, ASKED)
    assert ledger.view().jobs == {}


class MeetingHost(SimulatedHost):
    """Tells of its process once all nodes that `meet` waits for are being asked."""

    def __init__(self, node: SimulatedNode, meet: threading.Barrier) -> None:
        super().__init__(node)
        self.meet = meet

    def process(self, pid: int) -> ProcessFound | None:
        self.meet.wait(60.0)
        return found(pid)


def test_all_nodes_are_asked_at_once_but_one_that_is_known_not_to_answer(ledger: SqlLedger) -> None:
    meet = threading.Barrier(3)
    agents = {name: SimulatedNode(SimulatedRuntime(SystemClock()), SystemClock()) for name in ("a", "silent", "b", "c")}
    for agent in agents.values():
        agent.parts["host"] = MeetingHost(agent, meet)
    nodes = Nodes(agents)
    view = ledger.view().advance([SilenceObserved("silent", Silence(1.0, "it has not answered"))])
    assert [one.identity.node for one in find_process(view, nodes, TRAINING)] == ["a", "b", "c"]
    nodes.close()


def test_a_node_that_hangs_delays_the_search_no_longer_than_its_time(
    ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adopted_processes, "FOUND_WITHIN_S", 0.2)
    hung = one_training()
    hung.fall_silent()
    nodes = Nodes({"hung": hung, "well": one_training()})
    assert [one.identity.node for one in find_process(ledger.view(), nodes, TRAINING)] == ["well"]
    hung.answer_again()
    nodes.close()


def test_of_several_nodes_it_is_said_that_only_those_that_answer_were_asked() -> None:
    one, several = Nodes({"a": one_training()}), Nodes({"a": one_training(), "b": one_training()})
    assert no_process(one, 7) == "there is no process 7 on this machine"
    assert no_process(several, 7) == "there is no process 7 on any node that answers"
