"""A report is taken for the node of the sender's pod, and what is refused is told for that node."""

import threading
from pathlib import Path
from typing import Any

import pytest

from corral.clock import ManualClock
from corral.core.model.errors import Refused
from corral.engines.kubernetes.agent_reports.agent_pods import AgentPod, agent_pods_of
from corral.engines.kubernetes.agent_reports.report_box import ReportBox
from corral.engines.kubernetes.agent_reports.report_taker import ReportTaker
from corral.engines.kubernetes.agent_reports.token_reviews import TokenReviews
from corral.engines.kubernetes.cluster.cache import Cache
from corral.engines.kubernetes.cluster.node_facts import read_node
from corral.engines.kubernetes.cluster.watch_state import Change
from tests.engines.kubernetes.agent_reports.agents import body_of, report
from tests.engines.kubernetes.control_plane import ControlPlane
from tests.engines.kubernetes.manifests import node

ACCOUNT = "corral-system/corral-agent"
POD = AgentPod("corral-system", "agent-0", "uid-0", "gpu-01")


class Taking:
    """A taker without an API server, whose clock stands at 1000."""

    def __init__(self, directory: Path) -> None:
        self.box, self.clock = ReportBox(), ManualClock(1000.0)
        cluster = ControlPlane("", "", "", "").connect(directory, url="http://127.0.0.1:1")
        pods: Cache[Any] = Cache(agent_pods_of(ACCOUNT), threading.RLock(), lambda: True)
        reviews = TokenReviews(cluster, ACCOUNT, self.clock)
        self.taker = ReportTaker(self.box, reviews, pods, lambda uid: None, self.clock, silent_after_s=10.0)

    def taken_at(self, sent_at: float) -> float:
        """When the server thinks that a sample was taken that the agent took as it sent its report."""
        self.taker.take(POD, body_of(report("x", "GPU-1", sent_at=sent_at)), packed=False)
        latest = self.box.latest("gpu-01")
        assert latest is not None
        return latest.report.samples[0].taken_at


@pytest.fixture
def taking(tmp_path: Path) -> Taking:
    return Taking(tmp_path)


def test_a_report_is_of_the_node_of_its_senders_pod_whatever_name_it_has(taking: Taking) -> None:
    taking.taker.take(POD, body_of(report("gpu-of-another", "GPU-1")), packed=False)
    latest = taking.box.latest("gpu-01")
    assert latest is not None
    assert (latest.node, latest.pod, latest.heard_at, latest.silent_after_s) == ("gpu-01", POD.key, 1000.0, 10.0)
    assert latest.report.node.name == "gpu-01"
    assert taking.box.latest("gpu-of-another") is None


def test_a_clock_an_hour_apart_is_right_and_its_small_changes_move_nothing(taking: Taking) -> None:
    assert taking.taken_at(1000.4) == 1000.0
    assert taking.taken_at(999.5) == 999.5
    assert taking.taken_at(4600.0) == 1000.0
    # The same difference is kept, so that a moment that is told twice stays the same.
    assert taking.taken_at(4599.5) == 999.5
    assert taking.taken_at(1000.0) == 1000.0


def test_the_reason_of_a_refusal_is_kept_for_the_node_until_a_report_is_taken(
    taking: Taking, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        with pytest.raises(Refused):
            taking.taker.take(POD, body_of(report("x"), protocol=2), packed=False)
    assert "sends reports of form 2, and this server reads form 1" in (taking.taker.refusal("gpu-01") or "")
    assert len(caplog.records) == 1
    taking.taken_at(1000.0)
    assert taking.taker.refusal("gpu-01") is None


def test_a_node_that_left_the_cluster_is_forgotten_and_its_devices_may_come_elsewhere(taking: Taking) -> None:
    taking.taken_at(1000.0)
    other = AgentPod("corral-system", "agent-1", "uid-1", "gpu-02")
    with pytest.raises(Refused, match="node gpu-01 has it"):
        taking.taker.take(other, body_of(report("x", "GPU-1")), packed=False)
    known = read_node(node("gpu-01"))
    taking.taker.nodes_changed([Change(None, known)])
    taking.taker.nodes_changed([Change(known, known)])
    assert taking.box.latest("gpu-01") is not None
    taking.taker.nodes_changed([Change(known, None)])
    assert taking.box.latest("gpu-01") is None
    taking.taker.take(other, body_of(report("x", "GPU-1")), packed=False)
