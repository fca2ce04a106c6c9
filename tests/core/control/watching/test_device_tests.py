"""Tests and resets of devices, ordered from the agents of their nodes."""

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from corral.clock import SystemClock
from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.watching.device_tests import NodeDeviceTests, ProbationPlan
from corral.core.control.watching.health_watch import ProbationEnd
from corral.core.model.devices.device import Device, Partition
from corral.core.model.devices.health import DeviceHealth, Health, SignKind
from corral.core.model.errors import NodeUnreachable
from corral.core.ports.node import DeviceTest, DeviceTestReport
from corral.host.node.mock.simulated_node import SimulatedHost, SimulatedNode
from corral.host.runtimes.simulated import SimulatedRuntime

GPU = Device("GPU-0", 0, "A100", 81_920)
PROBATION = DeviceHealth(Health.PROBATION, "", 100.0, relapses=1)
SICK = DeviceHealth(Health.QUARANTINED, "Xid 119", 100.0, (SignKind.XID,), relapses=1)


class Host(SimulatedHost):
    """A host that notes its orders and answers as the test says."""

    def __init__(self, node: SimulatedNode) -> None:
        super().__init__(node)
        self.orders: list[DeviceTest] = []
        self.report: DeviceTestReport | None = None
        self.answers = True

    def test_device(self, test: DeviceTest) -> DeviceTestReport | None:
        if not self.answers:
            raise NodeUnreachable("no answer")
        self.orders.append(test)
        return self.report


class Rig:
    def __init__(self) -> None:
        node = SimulatedNode(SimulatedRuntime(SystemClock()), SystemClock())
        self.host = Host(node)
        node.parts |= {"host": self.host}
        self.nodes = Nodes({"a": node})
        self.tests = NodeDeviceTests(self.nodes, ProbationPlan(30.0, "gpu-test", resets=True))

    def result(self, health: DeviceHealth = PROBATION, *, may_begin: bool = True) -> ProbationEnd | None:
        return self.tests.result("a", GPU, health, may_begin=may_begin)

    def after_a_while(self, health: DeviceHealth = PROBATION) -> ProbationEnd:
        deadline = time.monotonic() + 60
        while (end := self.result(health, may_begin=False)) is None:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        return end


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.nodes.close()


def test_a_test_begins_when_it_may_and_its_end_is_told_from_then_on(rig: Rig) -> None:
    assert rig.result(may_begin=False) is None
    assert rig.host.orders == []
    assert rig.result() is None
    rig.host.report = DeviceTestReport("the test exited with 1: bad")
    assert rig.after_a_while() == ProbationEnd("the test exited with 1: bad")
    assert {order.id for order in rig.host.orders} == {"GPU-0 100.000"}
    assert (rig.host.orders[0].command, rig.host.orders[0].timeout_s) == ("gpu-test", 30.0)


def test_each_probation_has_a_test_of_its_own(rig: Rig) -> None:
    rig.host.report = DeviceTestReport()
    rig.result()
    assert rig.after_a_while() == ProbationEnd()
    later = replace(PROBATION, since=200.0)
    assert rig.result(later) is None
    assert rig.after_a_while(later) == ProbationEnd()
    assert {order.id for order in rig.host.orders} == {"GPU-0 100.000", "GPU-0 200.000"}


def test_a_node_that_does_not_answer_is_asked_again(rig: Rig) -> None:
    rig.host.answers = False
    rig.result()
    rig.host.report, rig.host.answers = DeviceTestReport(), True
    assert rig.after_a_while() == ProbationEnd()


def test_a_device_that_is_cut_into_slices_is_proved_by_their_tests(rig: Rig) -> None:
    whole = replace(GPU, partitions=(Partition("MIG-1", "1g.10gb", 10_240),))
    assert rig.tests.result("a", whole, PROBATION, may_begin=True) == ProbationEnd()
    assert rig.host.orders == []


def test_a_quarantine_that_takes_a_reset_has_one_and_no_other_has_any(rig: Rig) -> None:
    hot = replace(SICK, kinds=(SignKind.TEMPERATURE,))
    assert not rig.tests.was_reset("a", GPU, hot)
    rig.host.report = DeviceTestReport()
    deadline = time.monotonic() + 60
    while not rig.tests.was_reset("a", GPU, SICK):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert [order.resets for order in rig.host.orders] == [True]
    assert not rig.tests.was_reset("a", GPU, SICK)
    assert len(rig.host.orders) == 1


def test_a_site_that_wants_no_resets_has_none(rig: Rig) -> None:
    assert not NodeDeviceTests(rig.nodes, ProbationPlan(30.0)).was_reset("a", GPU, SICK)
    assert rig.host.orders == []
