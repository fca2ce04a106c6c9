"""Jobs are moved when the site or an administrator wants it, and a moved job runs elsewhere."""

import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from corral.client import Client
from corral.clock import ManualClock, SystemClock
from corral.config import RebalanceTime
from corral.core.access.caller import Caller
from corral.core.control.changing.job_changes import Verb
from corral.core.model.devices.device import Device, DeviceCondition, Node
from corral.core.model.errors import Forbidden
from corral.core.model.fact import ConditionObserved, MovesAllowed, NodeObserved, Observation
from corral.core.model.home import Home
from corral.core.model.jobs.job import Job, Request
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.submission import Submission
from corral.core.model.placing.eviction import EvictionRule
from corral.core.ports.ledger import Decided
from corral.core.scheduling.evicting import moving
from corral.core.scheduling.planner import Planner
from corral.features.rebalancing import run_commands
from corral.features.rebalancing.answers import MoveRow
from corral.features.rebalancing.answers import Rebalance as Foreseen
from corral.features.rebalancing.rebalancing import ON_REQUEST_S, Rebalancing, night_ends
from corral.host.node.mock.simulated_node import SimulatedNode
from corral.host.runtimes.simulated import SimulatedRuntime
from corral.sim.faults.live_server import LiveServer
from tests.api.world import Served

ALICE = Caller("alice", 1000, 1000, (1000,), admin=True)
BOB = Caller("bob", 1001, 1001, (1001,))
PATIENCE_S = 60.0


def until(server: LiveServer, job_id: str, phase: Phase) -> Job:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        job = server.ledger.find_job(job_id)
        assert job is not None
        if job.phase is phase:
            return job
        assert time.monotonic() < deadline, f"job {job_id} is {job.phase}, not {phase}"
        time.sleep(0.002)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    """Nodes a and b with two GPUs each."""
    observed: list[Observation] = []
    for name in ("a", "b"):
        devices = tuple(Device(f"GPU-{name}{index}", index, "Simulated", 81_920) for index in range(2))
        observed.append(NodeObserved(Node(name, devices, 64_000, 512 * 1024)))
        observed += [ConditionObserved(DeviceCondition(one.uuid, memory_free_mib=81_920)) for one in devices]
    clock = SystemClock()
    nodes = {name: SimulatedNode(SimulatedRuntime(clock), clock) for name in ("a", "b")}
    server = LiveServer(Home(tmp_path), nodes, observed)
    yield server
    server.close()


def submit(server: LiveServer, gpus: int, **more: object) -> str:
    more.setdefault("request", Request(devices=gpus))
    (job_id,) = server.service.submit([Submission(("true",), workdir="/", **more)], ALICE)  # type: ignore[arg-type]
    return job_id


def rebalancing(server: LiveServer, when: RebalanceTime = RebalanceTime.NEVER) -> Rebalancing:
    return Rebalancing(server.ledger, SystemClock(), Planner, when)


def test_a_job_moves_for_a_large_one_and_runs_elsewhere(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "SETTLED_S", 0.0)
    pinned = submit(server, 1, request=Request(devices=1, node="a"))
    until(server, pinned, Phase.RUNNING)
    filler = submit(server, 1, request=Request(devices=1, node="a"))
    until(server, filler, Phase.RUNNING)
    moves = submit(server, 1, movable=True)
    until(server, moves, Phase.RUNNING)
    server.service.changes.one(Verb.CANCEL, filler, ALICE)
    until(server, filler, Phase.CANCELLED)
    large = submit(server, 2)
    server.settle()
    foreseen = rebalancing(server).foreseen()
    assert [(one.job, one.for_job, one.nodes) for one in foreseen.moves] == [(moves, large, ("b",))]
    assert foreseen.starts == (large,)
    assert foreseen.until is None
    assert server.ledger.view().jobs[large].phase is Phase.PENDING, "foreseeing changes nothing"
    rebalancing(server).start(ALICE)
    until(server, large, Phase.RUNNING)
    moved = until(server, moves, Phase.RUNNING)
    view = server.ledger.view()
    assert {member.node for member in view.allocations[f"{large}.1"].placement.members} == {"b"}
    assert {member.node for member in view.allocations[f"{moves}.2"].placement.members} == {"a"}
    assert moved.eviction is not None
    assert (moved.eviction.rule, moved.eviction.for_job_id) == (EvictionRule.MOVE, large)


def test_only_an_administrator_lets_jobs_be_moved(server: LiveServer) -> None:
    with pytest.raises(Forbidden):
        rebalancing(server).start(BOB)
    assert server.ledger.view().moves_until == 0.0


def at(hour: int, minute: int) -> float:
    """A moment of an ordinary day, by this machine's time zone."""
    day = datetime.fromtimestamp(1_795_000_000.0).astimezone()
    return day.replace(hour=hour, minute=minute, second=0, microsecond=0).timestamp()


def test_the_night_is_the_hour_from_three() -> None:
    assert night_ends(at(2, 59)) is None
    assert night_ends(at(3, 0)) == at(4, 0)
    assert night_ends(at(3, 59)) == at(4, 0)
    assert night_ends(at(4, 0)) is None


def test_jobs_may_be_moved_at_night_if_the_site_says_so(server: LiveServer) -> None:
    for when, allowed in ((RebalanceTime.NEVER, 0.0), (RebalanceTime.NIGHTLY, at(4, 0))):
        Rebalancing(server.ledger, ManualClock(at(3, 10)), Planner, when).look()
        server.ledger.commit(lambda _: Decided((), None)).result()
        assert server.ledger.view().moves_until == allowed


def test_the_night_is_that_of_the_wall_clock_also_after_it_was_set(server: LiveServer) -> None:
    clock = ManualClock(at(3, 10))
    clock.step(12 * 3600.0)
    Rebalancing(server.ledger, clock, Planner, RebalanceTime.NIGHTLY).look()
    assert server.ledger.view().moves_until == 0.0
    clock.step(12 * 3600.0)
    Rebalancing(server.ledger, clock, Planner, RebalanceTime.NIGHTLY).look()
    assert server.ledger.view().moves_until == at(4, 0)


def test_a_request_by_day_is_not_shortened_by_another(server: LiveServer) -> None:
    clock = ManualClock(at(3, 55))
    Rebalancing(server.ledger, clock, Planner, RebalanceTime.NIGHTLY).start(ALICE)
    Rebalancing(server.ledger, clock, Planner, RebalanceTime.NIGHTLY).look()
    server.ledger.commit(lambda _: Decided((), None)).result()
    assert server.ledger.view().moves_until == at(3, 55) + ON_REQUEST_S


def test_the_command_asks_the_server(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    with Client(served.world.home.root) as client:
        assert client.rebalance(dry_run=True) == Foreseen()
        assert client.rebalance().until is not None
    assert served.world.ledger.view().moves_until > 0.0


def test_the_moves_are_shown_with_their_cost() -> None:
    found = Foreseen(
        moves=(
            MoveRow("12", "ann", ("gpu-01",), "it moves, so that job 40 can start", "40", lost_gpu_hours=2.5),
            MoveRow("13", "bob", ("gpu-02",), "it moves, so that node gpu-02 is empty for larger jobs", saves=True),
        ),
        starts=("40",),
        emptied=("gpu-02",),
    )
    lines = list(run_commands.lines_of(found, dry_run=True))
    assert lines[0].split() == ["JOB", "USER", "LEAVES", "LOSES", "WHY"]
    assert "2.5 GPU-h" in lines[1]
    assert "saves its work" in lines[2]
    assert lines[-1] == "1 waiting job would start and 1 node would be empty: 2 jobs would move and lose 2.5 GPU-hours."


def test_without_moves_it_says_who_may_be_moved() -> None:
    assert "--movable" in "\n".join(run_commands.lines_of(Foreseen(), dry_run=True))


def test_a_view_without_leave_moves_nothing(server: LiveServer) -> None:
    server.ledger.observe([MovesAllowed(1.0)])
    server.settle()
    assert server.core.controller.plan.evictions == ()
