"""Two servers with one scheduler name in one cluster: one binds, and nobody touches what the other has bound."""

import json
import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.engines.kubernetes.binding.pods_of_others import BOUND_FOR
from corral.engines.kubernetes.cluster.client import Cluster, Selection
from corral.engines.kubernetes.cluster.resource import PODS
from tests.engines.kubernetes.control_plane import ControlPlane
from tests.engines.kubernetes.engine.binding_server import Server
from tests.engines.kubernetes.nodes import make_node

BARRED = "are bound by another server"
"""Pods of other tests are there, too, and are warned of as another server's."""


@pytest.fixture
def servers(tmp_path: Path, control_plane: ControlPlane, cluster: Cluster, namespace: str) -> Iterator[list[Server]]:
    node = f"two-{uuid.uuid4().hex[:6]}"
    make_node(cluster, node, gpus=8)
    kubeconfig = control_plane.kubeconfig(tmp_path / "kubeconfig", namespace=namespace)
    both = [Server(tmp_path / home, kubeconfig, cluster, namespace, node) for home in ("first", "second")]
    try:
        yield both
    finally:
        for one in both:
            one.corral("down")


def marks(cluster: Cluster, namespace: str) -> dict[str, str | None]:
    """By whom each pod was bound; None where it was not."""
    pods = cluster.list(PODS, Selection(namespace))
    return {
        pod["metadata"]["name"]: (pod["metadata"].get("annotations") or {}).get(BOUND_FOR)
        if pod["spec"].get("nodeName")
        else None
        for pod in pods
    }


def going(cluster: Cluster, namespace: str) -> set[str]:
    """The pods that somebody has deleted, and that no kubelet lets go."""
    pods = cluster.list(PODS, Selection(namespace))
    return {pod["metadata"]["name"] for pod in pods if "deletionTimestamp" in pod["metadata"]}


def all_bound_by(server: Server, namespace: str, count: int) -> bool:
    tag = (server.home / "cluster-tag").read_text().strip()
    found = marks(server.cluster, namespace)
    return len(found) == count and all((mark or "").startswith(f"{tag}/") for mark in found.values())


def pid(server: Server) -> int:
    return int((server.home / "corral.pid").read_text())


def test_one_binds_and_the_other_says_who_does_and_takes_over_when_that_ends(
    servers: list[Server], cluster: Cluster, namespace: str
) -> None:
    first, second = servers
    assert BARRED not in first.corral("up", "--detach")
    said = second.corral("up", "--detach")
    tag = (first.home / "cluster-tag").read_text().strip()
    assert f"pods with schedulerName {namespace} are bound by another server of Corral: server {tag}" in said
    assert f":{first.home}), since 20" in said
    assert "scheduler_name" in said
    assert said.split("corral: ")[1].split("\n")[0] in second.log()
    for number in range(6):
        first.make(f"p{number}")
    first.eventually(lambda: all_bound_by(first, namespace, 6), "all six are bound by the first")
    assert len(json.loads(second.corral("ps", "--all", "--json"))) == 0
    doctor = second.corral("doctor", "--engine", "kubernetes", "--kubeconfig", str(first.home.parent / "kubeconfig"))
    assert f"warning  binding    pods with schedulerName {namespace} are bound by server {tag}" in doctor
    first.corral("down")
    second.make("p6")
    second.eventually(lambda: second.phase("p6") and marks(cluster, namespace)["p6"], "the second has taken over")
    second.corral("cancel", "1")
    second.eventually(lambda: going(cluster, namespace) == {"p6"}, "what the second has bound is its to delete")
    cluster.delete(PODS, "p6", namespace, grace_s=0)
    assert all_bound_by(first, namespace, 6)


def test_a_server_that_was_stopped_while_another_took_over_binds_and_deletes_nothing(
    servers: list[Server], cluster: Cluster, namespace: str
) -> None:
    first, second = servers
    first.corral("up", "--detach")
    second.corral("up", "--detach")
    first.make("bound")
    first.make("big", gpus=8)
    first.eventually(lambda: marks(cluster, namespace)["bound"], "the first binds")
    first.eventually(lambda: '"id": "2"' in first.corral("ps", "--json"), "the other waits with the first")
    paused = pid(first)
    os.kill(paused, signal.SIGSTOP)
    try:
        second.eventually(lambda: '"id"' in second.corral("ps", "--json"), "the second takes over")
    finally:
        os.kill(paused, signal.SIGCONT)
    first.eventually(lambda: BARRED in first.log(), "the first hears of it")
    assert "cancelled" in first.corral("cancel", "2")
    cluster.delete(PODS, "bound", namespace, grace_s=0)
    second.eventually(lambda: all_bound_by(second, namespace, 1), "the pod that waited is bound by the second")
    first.eventually(lambda: not going(cluster, namespace), "and by nobody deleted")


def test_two_servers_whose_schedulers_have_other_names_both_bind(
    servers: list[Server], cluster: Cluster, namespace: str
) -> None:
    first, second = servers
    settings = second.home / "config.yaml"
    settings.write_text(settings.read_text().replace(f"scheduler_name: {namespace}", "scheduler_name: Their_Own"))
    settings.write_text(settings.read_text().replace("Their_Own", f"Other-{namespace}"))
    assert BARRED not in first.corral("up", "--detach") + second.corral("up", "--detach")
    first.make("one")
    second.make("two", schedulerName=f"Other-{namespace}")
    first.eventually(lambda: marks(cluster, namespace)["one"] and marks(cluster, namespace)["two"], "both bind")


def test_a_server_that_is_killed_goes_on_at_once(servers: list[Server], cluster: Cluster, namespace: str) -> None:
    first = servers[0]
    first.corral("up", "--detach")
    os.kill(pid(first), signal.SIGKILL)
    assert "are not bound" not in (said := first.corral("up", "--detach"))
    assert BARRED not in said
    first.make("one")
    first.eventually(lambda: marks(cluster, namespace)["one"], "it binds")
