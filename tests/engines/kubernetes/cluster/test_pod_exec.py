"""Commands run in containers through a real API server; a stand-in for the kubelet runs them on this host."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import ClusterUnreachable, MissingRight, NoSuchObject
from corral.engines.kubernetes.cluster.exec_talk import MOST_BYTES
from corral.engines.kubernetes.cluster.pod_exec import Ran
from corral.engines.kubernetes.cluster.resource import PODS
from tests.engines.kubernetes.control_plane import NOBODY, ControlPlane
from tests.engines.kubernetes.kubelet import Kubelet
from tests.engines.kubernetes.manifests import pod


@pytest.fixture
def running(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[str]:
    """The name of a pod that runs."""
    kubelet = Kubelet(cluster, f"{namespace}-n", tmp_path / "kubelet")
    kubelet.start()
    wanted = pod("one", namespace, node=kubelet.name)
    wanted["spec"]["containers"][0]["command"] = ["sleep", "600"]
    cluster.create(PODS, wanted)
    yield "one"
    kubelet.close()


def run(cluster: Cluster, namespace: str, script: str, timeout_s: float = 30) -> Ran:
    return cluster.run_in_pod("one", namespace, "main", ["sh", "-c", script], timeout_s=timeout_s)


@pytest.mark.usefixtures("running")
def test_a_command_gives_its_output_and_its_exit_code(cluster: Cluster, namespace: str) -> None:
    assert run(cluster, namespace, "echo out; echo err >&2; exit 3") == Ran(3, b"out\n", b"err\n")
    assert run(cluster, namespace, "printf 'a  b&c=d'") == Ran(0, b"a  b&c=d", b"")
    assert len(run(cluster, namespace, f"head -c {MOST_BYTES + 5000} /dev/zero").stdout) == MOST_BYTES


@pytest.mark.usefixtures("running")
def test_a_command_that_cannot_be_run_has_no_exit_code(cluster: Cluster, namespace: str) -> None:
    ran = cluster.run_in_pod("one", namespace, "main", ["/nowhere/nvidia-smi"])
    assert ran.exit_code is None
    assert b"/nowhere/nvidia-smi" in ran.stderr


@pytest.mark.usefixtures("running")
def test_a_command_that_goes_on_is_given_up_at_the_deadline(cluster: Cluster, namespace: str) -> None:
    began_s = time.monotonic()
    with pytest.raises(ClusterUnreachable, match="has not ended in time"):
        run(cluster, namespace, "sleep 20", timeout_s=0.5)
    assert time.monotonic() - began_s < 15


def test_who_may_not_is_told_so_and_a_pod_that_is_missing_too(
    cluster: Cluster, control_plane: ControlPlane, namespace: str, running: str, tmp_path: Path
) -> None:
    with pytest.raises(NoSuchObject):
        cluster.run_in_pod("other", namespace, "main", ["true"])
    stranger = control_plane.connect(tmp_path, NOBODY)
    with pytest.raises(MissingRight, match="pods/exec"):
        stranger.run_in_pod(running, namespace, "main", ["true"])
    stranger.close()
