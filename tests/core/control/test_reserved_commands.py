"""Whose process is fenced by which reservation, and what is said where none can be."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from corral.core.access.caller import Caller
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.running.reserved_commands import ReservedCommands
from corral.core.lifecycle import starting
from corral.core.model.devices.device import Node
from corral.core.model.devices.means import HostMeans
from corral.core.model.errors import Conflict, Forbidden
from corral.core.model.fact import NodeObserved
from corral.core.model.jobs.job import JobKind, ProcessIdentity
from corral.core.ports.ledger import Decided
from tests.core.control.test_interaction import BOB, Found, World

ALICE, ROOT = Caller("alice", uid=1000), Caller("root", uid=0, admin=True)
SERVER = ProcessIdentity(1, 1, "this boot")


class Reserved(World):
    """One reservation, which holds GPU-0 on a box that fences jobs."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.commands = ReservedCommands(self.ledger, Found(self.ledger), Nodes({"box": self.node}), SERVER)  # type: ignore[arg-type]
        self.see(None)

    def see(self, unfenced: str | None) -> None:
        self.ledger.observe([NodeObserved(Node("box", (), 8000, 8192, host_means=HostMeans(unfenced=unfenced)))])

    def reserve(self, kind: JobKind = JobKind.RESERVE) -> None:
        self.add(kind=kind)
        view = self.ledger.view()
        facts = starting.running(view, view.jobs["1"], 200.0, by="test", at=200.0)
        self.ledger.commit(lambda _: Decided(tuple(facts), None)).result()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Reserved]:
    made = Reserved(tmp_path)
    yield made
    made.ledger.close()


def test_a_process_of_its_user_is_kept_to_the_gpus_of_the_reservation(world: Reserved) -> None:
    world.reserve()
    assert world.commands.fence("1", 42, ALICE) is None
    assert world.node.fenced == {42: ("GPU-0",)}


@pytest.mark.parametrize(
    ("unfenced", "pid", "caller", "why"),
    [
        (None, 0, ALICE, "the server cannot see which process asks"),
        (None, 42, replace(ALICE, uid=None), "the server cannot see which process asks"),
        ("the server does not run as root", 42, ALICE, "the server does not run as root"),
        (None, 42, ROOT, "it runs as root, who can leave its cgroup"),
    ],
)
def test_where_there_is_no_fence_it_says_why(
    world: Reserved, unfenced: str | None, pid: int, caller: Caller, why: str
) -> None:
    world.see(unfenced)
    world.reserve()
    assert world.commands.fence("1", pid, caller) == why
    assert (world.node.fenced == {}) is (caller is not ROOT)


def test_nobody_is_fenced_by_the_reservation_of_another_or_by_what_holds_no_gpus_for_them(world: Reserved) -> None:
    world.add(runs=False, kind=JobKind.RESERVE)
    with pytest.raises(Conflict, match="not a reservation that holds GPUs now"):
        world.commands.fence("1", 42, ALICE)
    with pytest.raises(Forbidden, match="belongs to alice"):
        world.commands.fence("1", 42, BOB)
    assert world.node.fenced == {}


def test_a_job_is_no_reservation(world: Reserved) -> None:
    world.reserve(JobKind.RUN)
    with pytest.raises(Conflict, match="not a reservation"):
        world.commands.fence("1", 42, ALICE)
