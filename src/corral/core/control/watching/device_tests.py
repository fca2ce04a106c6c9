"""Tests and resets of devices through the agents of their nodes. No call waits: an answer is there at a later look."""

import logging
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from corral.core.control.nodes.node_registry import Nodes
from corral.core.control.watching.health_watch import ProbationEnd
from corral.core.lifecycle.device_health import needs_reset
from corral.core.model.devices.device import Device
from corral.core.model.devices.health import DeviceHealth
from corral.core.model.errors import CorralError
from corral.core.ports.node import DeviceTest, DeviceTestReport

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProbationPlan:
    """How a site tests devices, as `corral.core.ports.node.DeviceTest` has it. `resets`: it resets them, too."""

    timeout_s: float
    command: str | None = None
    resets: bool = False


@dataclass(slots=True)
class _Order:
    """The last test or reset of a device: `waits` for an answer of the node, `used` once its report was returned."""

    id: str
    waits: bool = False
    used: bool = False
    report: DeviceTestReport | None = None


class NodeDeviceTests:
    """Implements `corral.core.control.watching.health_watch.DeviceTests` for all nodes. For one thread."""

    def __init__(self, nodes: Nodes, plan: ProbationPlan) -> None:
        self._nodes = nodes
        self._plan = plan
        self._orders: dict[tuple[str, bool], _Order] = {}

    def result(self, node: str, device: Device, health: DeviceHealth, *, may_begin: bool) -> ProbationEnd | None:
        """Return the result of the device's test; None before its end."""
        if device.partitions:
            # A device that is cut into slices runs no work itself: its slices are tested.
            return ProbationEnd()
        plan = self._plan
        order = self._order(node, device, health, plan.command, resets=False, may_begin=may_begin)
        return None if order is None or order.report is None else ProbationEnd(order.report.failure)

    def was_reset(self, node: str, device: Device, health: DeviceHealth) -> bool:
        """Reset a device, once in each quarantine whose end takes a reset. Return True once, if that succeeded."""
        if not self._plan.resets or device.parent_uuid is not None or not needs_reset(health):
            return False
        order = self._order(node, device, health, None, resets=True, may_begin=True)
        if order is None or order.report is None or order.used:
            return False
        order.used = True
        return order.report.failure is None

    def _order(
        self, node: str, device: Device, health: DeviceHealth, command: str | None, *, resets: bool, may_begin: bool
    ) -> _Order | None:
        """Return the order for the device in this state of its health, asking its node; None if it has not begun."""
        order_id = f"{device.uuid} {health.since:.3f}{' reset' if resets else ''}"
        order = self._orders.get((device.uuid, resets))
        if order is None or order.id != order_id:
            if not may_begin:
                return None
            order = self._orders[device.uuid, resets] = _Order(order_id)
        if order.report is None and not order.waits:
            order.waits = True
            test = DeviceTest(order_id, device.uuid, self._plan.timeout_s, command, resets)
            self._nodes.worker(node).ask(partial(self._asked, node, test)).add_done_callback(partial(_take, order))
        return order

    def _asked(self, node: str, test: DeviceTest) -> DeviceTestReport | None:
        host = self._nodes.agent(node).host
        if host is None:
            # Where only the launches of a node are seen, nothing can test its devices: the watch alone decides.
            return DeviceTestReport("nothing can reset devices there" if test.resets else None)
        return host.test_device(test)


def _take(order: _Order, answer: "Future[DeviceTestReport | None]") -> None:
    try:
        order.report = answer.result()
    except CorralError as error:
        log.debug("test %s: %s", order.id, error)
    order.waits = False
