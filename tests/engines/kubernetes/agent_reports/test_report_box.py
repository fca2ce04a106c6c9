"""The box has the last report of each node, and no device belongs to two."""

import pytest

from corral.core.model.devices.device import Device, Node
from corral.core.model.errors import Refused
from corral.engines.kubernetes.agent.agent_report import PROTOCOL, AgentReport
from corral.engines.kubernetes.agent_reports.report_box import NodeReport, ReportBox


def reported(node: str, *uuids: str, heard_at: float = 100.0) -> NodeReport:
    devices = tuple(Device(uuid, index, "H100", 81920) for index, uuid in enumerate(uuids))
    report = AgentReport(PROTOCOL, "1", heard_at, Node(node, devices, 8000, 1024), ())
    return NodeReport(node, ("corral-system", f"agent-{node}"), report, heard_at, 30.0)


def test_the_last_report_of_a_node_counts_and_is_told() -> None:
    box, told = ReportBox(), list[NodeReport]()
    box.subscribe(told.append)
    first, second = reported("a", "GPU-1"), reported("a", "GPU-1", heard_at=110.0)
    box.put(first)
    box.put(second)
    assert box.latest("a") is second
    assert told == [first, second]
    assert box.latest("b") is None


def test_a_device_that_another_node_has_is_refused() -> None:
    box, told = ReportBox(), list[NodeReport]()
    box.put(reported("a", "GPU-1", "GPU-2"))
    box.subscribe(told.append)
    with pytest.raises(Refused, match="node b reports GPU GPU-2, and node a has it"):
        box.put(reported("b", "GPU-2"))
    assert box.latest("b") is None
    assert told == []


def test_a_device_may_come_to_another_node_once_its_node_has_it_no_longer() -> None:
    box = ReportBox()
    box.put(reported("a", "GPU-1", "GPU-2"))
    box.put(reported("a", "GPU-1"))
    box.put(reported("b", "GPU-2"))
    box.drop("a")
    box.put(reported("c", "GPU-1"))
    assert box.latest("a") is None
    with pytest.raises(Refused, match="node b has it"):
        box.put(reported("c", "GPU-1", "GPU-2"))
