"""A node that vanishes with a running job: the job is given up, and what it left is ended before anything new."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.engines.kubernetes.cluster.client import Selection
from corral.engines.kubernetes.cluster.resource import NODES, PODS
from tests.engines.kubernetes.engine.site import PATIENCE_S, Site
from tests.engines.kubernetes.kubelet import Kubelet
from tests.engines.kubernetes.nodes import make_node


@pytest.fixture
def kubelet(site: Site, tmp_path: Path) -> Iterator[Kubelet]:
    kubelet = Kubelet(site.cluster, f"{site.prefix}-a", tmp_path / "kubelet", gpus=2)
    kubelet.start()
    yield kubelet
    kubelet.close()


def test_a_node_that_vanishes_loses_its_jobs_and_returns_without_them(site: Site, kubelet: Kubelet) -> None:
    name = kubelet.name
    site.up()
    site.until("nodes", says=name)
    submit = ("submit", "--image", "train:1", "--node", name, "--gpus", "2", "--", "sleep", "600")
    site.corral(*submit)
    site.until("ps", says="RUNNING")
    site.corral(*submit)
    first = _running_on(site, name)
    site.cluster.delete(NODES, name)
    site.until("ps", "--all", says="LOST")
    assert f"node {name} is not part of this cluster any more" in site.corral("show", "1")

    make_node(site.cluster, name, gpus=2)
    site.until("ps", says="RUNNING")
    # Both have all GPUs of the node: the kubelet would have refused the second beside the first.
    now = _running_on(site, name)
    assert (len(first), len(now), first & now, kubelet.refused) == (1, 1, set(), 0)


def test_of_a_node_that_never_returns_no_pod_is_left_and_logs_stay(site: Site, kubelet: Kubelet) -> None:
    site.up()
    site.until("nodes", says=kubelet.name)
    work = ("sh", "-c", "echo begun; sleep 600")
    site.corral("submit", "--image", "train:1", "--node", kubelet.name, "--gpus", "1", "--", *work)
    site.until("logs", "1", says="begun")
    site.cluster.delete(NODES, kubelet.name)
    site.until("ps", "--all", says="LOST")
    deadline = time.monotonic() + PATIENCE_S
    while pods := site.cluster.list(PODS, Selection(site.namespace)):
        assert time.monotonic() < deadline, [pod["metadata"] for pod in pods]
        time.sleep(0.2)
    assert "begun" in site.corral("logs", "1")


def _running_on(site: Site, node: str) -> set[str]:
    """The UIDs of pods that run there."""
    pods = [pod for pod in site.cluster.list(PODS) if pod["spec"].get("nodeName") == node]
    return {pod["metadata"]["uid"] for pod in pods if pod["status"]["phase"] == "Running"}
