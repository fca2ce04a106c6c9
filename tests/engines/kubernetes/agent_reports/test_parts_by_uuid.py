"""A node whose parts Corral's own device plugin gives has them by UUID, also for pods that name no resource."""

from corral.core.model.devices.device import Device, DeviceCondition, Node
from corral.core.model.devices.means import Means
from corral.core.model.jobs.job import Request
from corral.core.model.placing.fit import Fit, fit
from corral.core.model.placing.state import node_state
from corral.core.model.view import View
from corral.engines.kubernetes.agent.agent_report import PROTOCOL, AgentReport, ServedResource
from corral.engines.kubernetes.agent_reports.report_box import NodeReport
from corral.engines.kubernetes.agent_reports.reported_node import Reported, see_reported, shares_by_report
from corral.engines.kubernetes.inventory.seen_node import SeenNode
from corral.engines.kubernetes.shares.placed_share import PlacedShare
from corral.engines.kubernetes.shares.pod_shares import OWN_NAMES, VISIBLE, ContainerShare
from corral.engines.kubernetes.shares.served_shares import served_shares
from corral.vendors.vendor import PlacedPart
from tests.engines.kubernetes.shares.test_pod_shares import TAKES
from tests.engines.kubernetes.shares.test_served_shares import CORE, MANAGER


def report(by: str) -> NodeReport:
    node = Node("g1", (Device("GPU-a", 0, "NVIDIA H100", 81920, means=Means.HOOK),), 1000, 1000)
    told = AgentReport(PROTOCOL, "0", 100.0, node, (), served=(ServedResource(CORE, by),))
    return NodeReport("g1", ("corral", "agent"), told, 100.0, 60.0)


def seen(last: NodeReport) -> SeenNode:
    return see_reported(MANAGER, Reported(last), (), (), before=None, now=100.0, shared=served_shares(MANAGER))


def fraction() -> ContainerShare:
    share = OWN_NAMES.asked({"containers": [TAKES]}, {"gpu-fraction": "0.5"})
    assert share is not None
    return share


def fits(found: SeenNode) -> bool:
    conditions = {one.uuid: DeviceCondition(one.uuid) for one in found.node.devices}
    state = node_state(View(nodes={"g1": found.node}, conditions=conditions), "g1")
    return isinstance(fit(fraction().request(Request(devices=0, vendor="nvidia")), state), Fit)


def test_a_fraction_without_a_resource_is_for_devices_that_corral_alone_gives_out() -> None:
    own, others = seen(report("corral")), seen(report("gpu-manager"))
    assert (own.node.devices[0].uuid, own.node.devices[0].offered_as) == ("GPU-a", (CORE, "corral.dev/devices"))
    assert fits(own)
    assert not fits(others)


def test_its_container_takes_the_uuid_that_is_written_with_the_binding() -> None:
    shared = shares_by_report(served_shares(MANAGER), report("corral"))
    placed = PlacedShare(shared, (PlacedPart(0, "GPU-a", 500, 40960),))
    assert placed.notes("g1", 1.0, fraction()) == {VISIBLE: "GPU-a"}
