"""Sick devices: the facts that follow from their samples, through a real ledger."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.core.control.watching.health_watch import HealthWatch, ProbationEnd
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.lifecycle.device_health import HealthPolicy
from corral.core.model.devices.device import Device, DeviceSample, DeviceState, Node, Silence
from corral.core.model.devices.health import DeviceHealth, Health, HealthSign, SignKind, Verdict
from corral.core.model.fact import DeviceHealthChanged, Fact, JobChanged, NodeObserved, SilenceObserved
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.state import node_state
from corral.core.model.view import View
from corral.core.ports.ledger import Decided
from corral.core.scheduling.planner import Planner
from tests.core.scheduling.lab import T0, box, job, observed, started, submitted

LOST = (SignKind.LOST, True)


class PlannedTests:
    """Tests that end as the rig says."""

    def __init__(self) -> None:
        self.ends: ProbationEnd | None = None
        self.begun: list[str] = []
        self.resets = False

    def result(self, node: str, device: Device, health: DeviceHealth, *, may_begin: bool) -> ProbationEnd | None:
        if may_begin:
            self.begun.append(device.uuid)
        return self.ends if device.uuid in self.begun else None

    def was_reset(self, node: str, device: Device, health: DeviceHealth) -> bool:
        return self.resets


class Rig:
    """A node with four devices, whose samples have the signs that the test gives."""

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path / 'ledger.db'}"
        self.ledger: SqlLedger = open_ledger(self.url)
        self.clock = ManualClock(T0)
        self.node = replace(box("a", 4), boot_id="boot-1")
        self.signs: dict[str, tuple[HealthSign, ...]] = {}
        self.faults: dict[str, str] = {}
        self.counted_by_cluster: set[str] = set()
        self.silent = False
        self.tests = PlannedTests()
        self.stopped: list[str] = []
        self.phases: list[Phase] = []
        self.fallen: list[tuple[str, Health]] = []
        self.begin()

    def begin(self) -> None:
        """A server comes, and hears the node."""
        self.watch = HealthWatch(
            self.ledger,
            self,
            self.clock,
            policy=HealthPolicy(600.0, 86400.0),
            tests=self.tests,
            stop=self.stopped.append,
            fell_sick=self.fell_sick,
        )
        self.ledger.observe(observed(self.node))  # type: ignore[arg-type]
        self.write()

    def restart(self) -> None:
        self.ledger.close()
        self.ledger = open_ledger(self.url)
        self.begin()

    def latest(self) -> dict[str, DeviceSample]:
        if self.silent:
            return {}
        now = self.clock.now()
        uuids = [device.uuid for device in self.ledger.view().nodes["a"].devices]
        return {
            uuid: DeviceSample(
                uuid,
                now,
                fault=self.faults.get(uuid),
                signs=self.signs.get(uuid, ()),
                counted=uuid in self.counted_by_cluster,
            )
            for uuid in uuids
        }

    def fell_sick(self, view: View, uuid: str, health: DeviceHealth, at: float) -> list[Fact]:
        self.fallen.append((uuid, health.state))
        self.phases += [job.phase for job in view.jobs.values()]
        ids = [view.allocations[allocation_id].job_id for allocation_id in view.holders.get(uuid, ())]
        return [JobChanged(one, {"phase": Phase.STOPPING, "stop_reason": Phase.PENDING}, at=at, by="t") for one in ids]

    def write(self, *facts: object) -> None:
        self.ledger.commit(lambda _: Decided(facts, None)).result()  # type: ignore[arg-type]

    def see(self, *deltas: object) -> None:
        self.ledger.observe(list(deltas))  # type: ignore[arg-type]
        self.write()

    def run_job(self, gpus: int = 1) -> None:
        self.write(*submitted(job(1, gpus)))
        for start in Planner(self.ledger.view()).plan(T0).starts:
            self.write(*started(start))

    def shows(self, number: int, *kinds: SignKind, verdict: Verdict = Verdict.QUARANTINE) -> None:
        """The device has these signs from now on; errors are events, all others last."""
        now = self.clock.now()
        made = (HealthSign(kind, verdict, str(kind), now, lasts=kind is not SignKind.XID) for kind in kinds)
        self.signs[f"GPU-a-{number}"] = tuple(made)

    def look(self, after_s: float = 1.0) -> None:
        self.clock.advance(after_s)
        self.watch.look()

    def state(self, number: int) -> Health | None:
        health = self.ledger.view().health.get(f"GPU-a-{number}")
        return None if health is None else health.state

    def blocked(self) -> list[DeviceState | None]:
        return [slot.blocked for slot in node_state(self.ledger.view(), "a").slots]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.ledger.close()


def test_nothing_starts_on_a_device_with_a_grave_sign_and_work_of_one_gpu_on_a_suspect_one(rig: Rig) -> None:
    rig.shows(0, SignKind.XID)
    rig.shows(1, SignKind.THROTTLE, verdict=Verdict.SUSPECT)
    rig.look()
    assert rig.blocked() == [DeviceState.QUARANTINED, DeviceState.SUSPECT, None, None]
    rig.write(*submitted(*(job(number) for number in range(1, 6))))
    plan = Planner(rig.ledger.view()).plan(T0)
    assert sorted(uuid for start in plan.starts for uuid in start.placement.uuids) == ["GPU-a-1", "GPU-a-2", "GPU-a-3"]


def test_no_work_with_several_gpus_starts_on_a_suspect_device(rig: Rig) -> None:
    rig.shows(1, SignKind.THROTTLE, verdict=Verdict.SUSPECT)
    rig.look()
    rig.write(*submitted(job(1, 3), job(2, 1)))
    starts = Planner(rig.ledger.view()).plan(T0).starts
    assert [start.placement.uuids for start in starts] == [("GPU-a-0", "GPU-a-2", "GPU-a-3"), ("GPU-a-1",)]


def test_a_planner_that_has_seen_the_device_well_learns_of_its_quarantine(rig: Rig) -> None:
    planner = Planner(rig.ledger.view())
    waiting = submitted(job(1, 4))
    sick = DeviceHealthChanged("GPU-a-3", DeviceHealth(Health.QUARANTINED, "Xid 79", T0), at=T0, by="t")
    planner.advance(waiting)
    assert len(planner.plan(T0).starts) == 1
    planner.advance([sick])
    assert not planner.plan(T0).starts


def test_the_journal_has_the_change_with_its_evidence_and_a_restart_keeps_it(rig: Rig) -> None:
    rig.shows(0, SignKind.XID)
    rig.look()
    health = rig.ledger.view().health["GPU-a-0"]
    rig.restart()
    assert rig.ledger.view().health == {"GPU-a-0": health}
    assert rig.blocked()[0] is DeviceState.QUARANTINED
    rig.look()
    assert rig.ledger.view().health == {"GPU-a-0": health}, "the same error counts once"


def test_a_lost_device_returns_after_its_test_and_a_watch(rig: Rig) -> None:
    rig.shows(0, SignKind.XID, SignKind.LOST)
    rig.look()
    rig.look(60.0)
    assert rig.state(0) is Health.QUARANTINED
    rig.signs.clear()
    rig.look()
    rig.look(6.0)
    assert rig.state(0) is Health.PROBATION
    rig.look()
    assert rig.tests.begun == ["GPU-a-0"]
    rig.tests.ends = ProbationEnd()
    rig.look()
    rig.look(599.0)
    assert rig.state(0) is Health.PROBATION
    rig.look()
    assert rig.state(0) is Health.HEALTHY
    assert rig.blocked() == [None] * 4


def test_a_lost_device_is_not_back_while_its_driver_fails_or_its_node_is_silent(rig: Rig) -> None:
    rig.shows(0, SignKind.LOST)
    rig.look()
    rig.signs.clear()
    rig.faults["GPU-a-0"] = "the driver has not answered"
    rig.restart()
    rig.look(60.0)
    assert rig.state(0) is Health.QUARANTINED
    rig.silent = True
    rig.look(3600.0)
    rig.silent = False
    rig.faults.clear()
    rig.look(1.0)
    assert rig.state(0) is Health.QUARANTINED
    rig.look(10.0)
    assert rig.state(0) is Health.PROBATION


def test_a_device_that_fails_its_test_is_quarantined_until_another_boot(rig: Rig) -> None:
    rig.shows(0, SignKind.LOST)
    rig.look()
    rig.signs.clear()
    rig.look(6.0)
    rig.tests.ends = ProbationEnd("the test exited with 1: bad memory")
    rig.look()
    assert rig.state(0) is Health.QUARANTINED
    assert rig.ledger.view().health["GPU-a-0"].reason == "it failed its test: the test exited with 1: bad memory"
    rig.look(10_000.0)
    assert rig.state(0) is Health.QUARANTINED
    rig.see(NodeObserved(replace(rig.node, boot_id="boot-2")))
    rig.look()
    assert rig.state(0) is Health.PROBATION


def test_a_reset_by_corral_ends_the_quarantine_for_an_error(rig: Rig) -> None:
    rig.shows(0, SignKind.XID)
    rig.look()
    rig.signs.clear()
    rig.look(1000.0)
    assert rig.state(0) is Health.QUARANTINED
    rig.tests.resets = True
    rig.look()
    assert rig.state(0) is Health.PROBATION


def test_a_silent_node_has_no_sick_devices(rig: Rig) -> None:
    rig.silent = True
    rig.see(SilenceObserved("a", Silence(T0, "node a has not answered")))
    rig.look(100.0)
    assert rig.ledger.view().health == {}


def test_a_device_that_alone_cannot_be_read_is_suspect_and_soon_lost(rig: Rig) -> None:
    rig.shows(0, SignKind.UNREADABLE, verdict=Verdict.SUSPECT)
    rig.look()
    assert rig.state(0) is Health.SUSPECT
    rig.look(3.0)
    assert rig.state(0) is Health.QUARANTINED


def test_a_device_that_its_node_has_no_more_is_lost_if_a_job_has_it(rig: Rig) -> None:
    rig.run_job(4)
    others = tuple(Device(f"GPU-new-{i}", i, "A100", 81_920) for i in range(2))
    rig.see(NodeObserved(replace(rig.node, devices=(*rig.node.devices[:2], *others))))
    rig.look()
    assert [rig.state(i) for i in range(4)] == [None, None, Health.QUARANTINED, Health.QUARANTINED]
    assert rig.ledger.view().health.keys().isdisjoint({"GPU-new-0", "GPU-new-1"})
    assert set(rig.stopped) == {"1.1"}


def test_a_device_that_its_node_has_no_more_and_nobody_had_is_no_matter(rig: Rig) -> None:
    rig.see(NodeObserved(replace(rig.node, devices=rig.node.devices[:2])))
    rig.look()
    assert rig.ledger.view().health == {}


def test_a_sick_device_that_was_taken_out_and_is_back_counts_as_reset(rig: Rig) -> None:
    rig.shows(0, SignKind.XID)
    rig.look()
    rig.signs.clear()
    rig.see(NodeObserved(replace(rig.node, devices=rig.node.devices[1:])))
    rig.look(1000.0)
    assert rig.state(0) is Health.QUARANTINED
    rig.see(NodeObserved(rig.node))
    rig.look(1000.0)
    rig.look(6.0)
    assert rig.state(0) is Health.PROBATION


def test_a_node_whose_driver_has_not_answered_since_its_agent_started_has_lost_no_device(rig: Rig) -> None:
    rig.run_job()
    rig.shows(1, SignKind.XID)
    rig.look()
    rig.signs.clear()
    rig.see(NodeObserved(replace(rig.node, devices=())))
    rig.look(60.0)
    assert (rig.state(0), rig.stopped) == (None, [])
    rig.see(NodeObserved(rig.node))
    rig.look(1.0)
    rig.look(60.0)
    assert rig.state(1) is Health.QUARANTINED


def test_the_only_device_of_a_node_is_lost_once_its_driver_says_so(rig: Rig) -> None:
    rig.run_job()
    rig.see(NodeObserved(replace(rig.node, devices=(), driver_version="570.1")))
    rig.look()
    assert rig.state(0) is Health.QUARANTINED


def test_a_device_that_no_node_has_proves_nothing(rig: Rig) -> None:
    rig.shows(0, SignKind.XID, verdict=Verdict.SUSPECT)
    rig.look()
    rig.see(*observed(Node("a", rig.node.devices[1:], 64_000, 512 * 1024)))
    rig.look(86400.0)
    assert rig.state(0) is Health.SUSPECT


def test_the_jobs_of_a_device_hear_of_its_quarantine_once_and_in_the_same_commit(rig: Rig) -> None:
    rig.run_job(2)
    rig.shows(0, SignKind.XID)
    rig.look()
    rig.look()
    assert rig.fallen == [("GPU-a-0", Health.QUARANTINED)]
    assert rig.stopped == ["1.1"]
    assert rig.ledger.view().jobs["1"].phase is Phase.STOPPING


def test_devices_of_one_job_that_fall_sick_at_once_each_find_the_job_as_it_is_then(rig: Rig) -> None:
    rig.run_job(2)
    rig.shows(0, SignKind.XID)
    rig.shows(1, SignKind.XID)
    rig.look()
    assert rig.phases == [Phase.RUNNING, Phase.STOPPING]
    assert rig.stopped == ["1.1"]


def test_no_test_begins_while_a_job_is_on_the_device(rig: Rig) -> None:
    rig.run_job()
    rig.shows(0, SignKind.LOST)
    rig.look()
    rig.signs.clear()
    rig.look(6.0)
    rig.look(100.0)
    assert rig.state(0) is Health.PROBATION
    assert rig.tests.begun == []


def test_a_slice_is_as_sick_as_the_device_that_it_is_cut_from(rig: Rig) -> None:
    whole = rig.node.devices[0]
    part = Device("MIG-1", 4, whole.model, 10_240, mig_profile="1g.10gb", parent_uuid=whole.uuid)
    rig.see(*observed(Node("a", (*rig.node.devices, part), 64_000, 512 * 1024)))
    rig.shows(0, SignKind.XID)
    rig.look()
    assert rig.ledger.view().health.keys() == {"GPU-a-0", "MIG-1"}


def test_a_device_that_its_cluster_counts_is_judged_by_the_cluster(rig: Rig) -> None:
    rig.counted_by_cluster.add("GPU-a-0")
    rig.shows(0, SignKind.XID)
    rig.look()
    assert rig.ledger.view().health == {}
