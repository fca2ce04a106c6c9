"""A server that binds pods which others make, used by the installed command, with a real API server."""

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.kubernetes.cluster.client import Cluster
from corral.kubernetes.cluster.errors import NoSuchObject
from corral.kubernetes.cluster.resource import PODS
from tests.kubernetes.binding.site import pod_of_others
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.kubelet import Kubelet

PATIENCE_S = 60.0


class Server:
    def __init__(self, directory: Path, kubeconfig: Path, cluster: Cluster, namespace: str, node: str) -> None:
        self.home = directory / "home"
        self.home.mkdir()
        self.cluster, self.namespace, self.node = cluster, namespace, node
        (self.home / "config.yaml").write_text(
            "engine: kubernetes\n"
            f"kubernetes:\n  kubeconfig: {kubeconfig}\n  namespace: {namespace}\n  scheduler_name: {namespace}\n"
            f"  pod_users: [{namespace}=alice]\n"
        )

    def corral(self, *words: str) -> str:
        env = {**os.environ, "CORRAL_HOME": str(self.home), "NO_COLOR": "1", "COLUMNS": "250"}
        command = [str(Path(sys.executable).parent / "corral"), *words]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE_S)
        return done.stdout + done.stderr

    def make(self, name: str, labels: dict[str, str] | None = None, **more: Any) -> None:
        # Nodes of other tests are there, too.
        own: dict[str, Any] = {
            "nodeSelector": {"kubernetes.io/hostname": self.node},
            "terminationGracePeriodSeconds": 5,
        }
        made = pod_of_others(name, self.namespace, **own, **more)
        made["metadata"]["labels"] = labels or {}
        self.cluster.create(PODS, made, self.namespace)

    def eventually(self, holds: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"{what}: {self.corral('ps', '--all')}{self.log()}"
            time.sleep(0.1)

    def log(self) -> str:
        return (self.home / "server.log").read_text()[-3000:]

    def phase(self, name: str) -> str | None:
        try:
            return str(self.cluster.get(PODS, name, self.namespace)["status"].get("phase"))
        except NoSuchObject:
            return None


@pytest.fixture
def server(tmp_path: Path, control_plane: ControlPlane, cluster: Cluster, namespace: str) -> Iterator[Server]:
    kubelet = Kubelet(cluster, f"k{uuid.uuid4().hex[:6]}", tmp_path / "kubelet", gpus=4)
    kubelet.start({"kubernetes.io/hostname": kubelet.name})
    kubeconfig = control_plane.kubeconfig(tmp_path / "kubeconfig", namespace=namespace)
    running = Server(tmp_path, kubeconfig, cluster, namespace, kubelet.name)
    try:
        assert "ready" in running.corral("up", "--detach") or running.log()
        yield running
    finally:
        running.corral("down")
        kubelet.close()


def container(*command: str, gpus: int = 1) -> list[dict[str, Any]]:
    limits = {"nvidia.com/gpu": str(gpus)}
    return [{"name": "main", "image": "busybox", "command": list(command), "resources": {"limits": limits}}]


def test_what_a_pod_of_another_scheduler_keeps_off_its_node_stays_off(server: Server) -> None:
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "noisy"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    theirs = pod_of_others("quiet", server.namespace, containers=container("sleep", "600"), affinity=affinity)
    theirs["spec"] |= {"schedulerName": "someone-else", "nodeName": server.node}
    server.cluster.create(PODS, theirs, server.namespace)
    server.eventually(lambda: server.phase("quiet") == "Running", "the quiet one runs")
    server.make("noisy", labels={"app": "noisy"}, containers=container("true"))
    server.eventually(lambda: "must not meet it" in server.corral("why", "1"), "the noisy one is kept off")
    server.make("other", labels={"app": "other"}, containers=container("true"))
    server.eventually(lambda: server.phase("other") == "Succeeded", "another one is not")
    server.cluster.delete(PODS, "quiet", server.namespace, grace_s=0)
    server.eventually(lambda: server.phase("noisy") == "Succeeded", "the noisy one runs once the quiet one has gone")


def test_pods_of_others_run_wait_end_and_outlive_a_server(server: Server) -> None:
    server.make("short", containers=container("sh", "-c", "echo hello; exit 3"))
    server.make("long", containers=container("sleep", "600", gpus=4))
    server.eventually(lambda: "FAILED" in server.corral("ps", "--all"), "the short one has failed")
    server.eventually(lambda: server.phase("long") == "Running", "the long one runs")
    listed = server.corral("ps", "--all")
    assert "alice" in listed
    assert f"{server.namespace}/long" in listed
    server.make("next", containers=container("true", gpus=2))
    server.eventually(lambda: "waits" in server.corral("why", "3"), "the next one waits")
    assert f"{server.node}" in server.corral("why", "3")
    server.corral("down")
    server.corral("up", "--detach")
    server.eventually(lambda: "RUNNING" in server.corral("ps"), "the long one is taken over")
    assert "hello" in server.corral("logs", "1")
    server.corral("cancel", "2")
    server.eventually(lambda: server.phase("long") is None, "the long one is deleted")
    server.eventually(lambda: server.phase("next") == "Succeeded", "the next one ran")
    server.eventually(lambda: server.corral("ps", "--all").count("SUCCEEDED") == 1, "it succeeded")
    assert len(server.corral("ps", "--all").strip().splitlines()) == 4
