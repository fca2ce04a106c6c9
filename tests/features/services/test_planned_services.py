"""Where a server binds pods of the cluster, a model service is a job of its: planned, held, shown and counted."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from corral.client import Client
from corral.engines.kubernetes.cluster.cluster_uid import cluster_uid
from corral.engines.kubernetes.cluster.errors import NoSuchObject
from corral.engines.kubernetes.cluster.resource import CONFIG_MAPS, NAMESPACES, OWN_NAMESPACE, PODS
from corral.features.services.controllers import CONTROLLERS, ServiceController
from corral.features.services.hold_store import HOLDS_NAME
from corral.features.services.planned_by_server import pod_scheduler
from corral.features.services.selection import Fallback, NodeSelection
from corral.features.services.service_kinds import KINDS
from corral.features.services.service_wanted import ServiceWanted
from tests.engines.kubernetes.control_plane import ControlPlane
from tests.engines.kubernetes.definitions import needs_definitions
from tests.engines.kubernetes.engine.binding_server import Server
from tests.engines.kubernetes.manifests import pod
from tests.features.services.conftest import Site
from tests.features.services.operator import make_pod

pytestmark = needs_definitions


@pytest.fixture
def server(site: Site, control_plane: ControlPlane, tmp_path: Path) -> Iterator[Server]:
    kubeconfig = control_plane.kubeconfig(tmp_path / "kubeconfig", namespace=site.namespace)
    running = Server(tmp_path / "home", kubeconfig, site.cluster, site.namespace, "")
    try:
        assert "ready" in running.corral("up", "--detach") or running.log()
        yield running
    finally:
        running.corral("down")


def wanted(site: Site, name: str, gpus: int) -> ServiceWanted:
    return ServiceWanted(name, site.namespace, site.model, site.runtime, {"tp-size": gpus})


def deployed(controller: ServiceController, site: Site, name: str, gpus: int, **options: Any) -> dict[str, Any]:
    made = controller.deploy(wanted(site, name, gpus), NodeSelection(**options))
    made_pod(site, controller, made, name)
    return made


def made_pod(site: Site, controller: ServiceController, made: dict[str, Any], name: str) -> None:
    """The pod that an operator makes of a service."""
    part = made["spec"]["engine"] if controller.kind.via == "ome" else made["spec"]["predictor"]
    container = part["runner"] if controller.kind.via == "ome" else part["model"]
    gpus = int(container["resources"]["limits"]["nvidia.com/gpu"])
    fields = {key: part[key] for key in ("schedulerName", "affinity") if key in part}
    one = pod(f"{name}-pod", site.namespace, gpus=gpus, nodeSelector={"site": site.tag}, **fields)
    one["spec"]["terminationGracePeriodSeconds"] = 0
    one["metadata"] |= {"labels": {controller.kind.pod_label: name}, "annotations": part["annotations"]}
    site.cluster.create(PODS, one)


def removed(site: Site, controller: ServiceController, name: str) -> None:
    controller.delete_inference_service(name, site.namespace)
    site.cluster.delete(PODS, f"{name}-pod", site.namespace, grace_s=0)


def knows(server: Server, client: Client, *nodes: str) -> None:
    """Wait until the server may place pods on all these nodes: it would choose among those that it knows."""
    server.eventually(lambda: set(nodes) <= {row.name for row in client.nodes.list()}, "it knows the nodes")
    server.eventually(lambda: set(nodes) <= {row.node for row in client.devices.list()}, "it knows their GPUs")


def node_of(site: Site, name: str) -> str | None:
    found: str | None = site.cluster.get(PODS, f"{name}-pod", site.namespace)["spec"].get("nodeName")
    return found


@pytest.mark.parametrize("via", ["ome", "kserve"])
def test_a_service_is_a_job_from_its_pods_to_its_end(site: Site, server: Server, via: str) -> None:
    small, busy, most = site.node("a", gpus=4), site.node("b"), site.node("c")
    site.ready_on(small, busy, most)
    make_pod(site.cluster, KINDS["ome"], site.namespace, "other", gpus=6, node=busy)
    with Client(server.home) as client:
        controller = CONTROLLERS[via](site.cluster, say=site.said.append, client=client)
        knows(server, client, small, busy, most)
        deployed(controller, site, "chat", 2)
        server.eventually(lambda: node_of(site, "chat") == most, "it is bound to the node with most idle GPUs")
        assert f"for the job {site.namespace}/chat" in site.text()
        site.cluster.patch(PODS, "chat-pod", {"status": {"phase": "Running"}}, site.namespace, subresource="status")
        server.eventually(lambda: "RUNNING" in server.corral("ps"), "it runs")
        (job,) = client.jobs.list()
        assert (job.name, job.user, job.gpus) == (f"{site.namespace}/chat", "alice", 2)
        deployed(controller, site, "large", 8)
        server.eventually(lambda: "waits" in server.corral("why", "2"), "the next one waits, and it is said why")
        removed(site, controller, "chat")
        server.eventually(lambda: node_of(site, "large") == most, "what the first one held goes to the next")
        ended = client.jobs.list(all=True, name=f"{site.namespace}/chat")
        assert [job.phase for job in ended] == ["CANCELLED"]
    assert f"{via}.{site.namespace}.chat" not in held_services(site)


def held_services(site: Site) -> Any:
    try:
        return site.cluster.get(CONFIG_MAPS, HOLDS_NAME, OWN_NAMESPACE).get("data") or {}
    except NoSuchObject:
        return {}


def test_a_quota_counts_services_and_the_preferences_of_their_users_count(site: Site, server: Server) -> None:
    first, liked = site.node("a"), site.node("b", gpus=4, labels={"zone": "near"})
    site.ready_on(first, liked)
    settings = server.home / "config.yaml"
    settings.write_text(settings.read_text() + "user_quota:\n  gpus: 3\n")
    server.corral("down")
    server.corral("up", "--detach")
    with Client(server.home) as client:
        controller = CONTROLLERS["ome"](site.cluster, say=site.said.append, client=client)
        knows(server, client, first, liked)
        deployed(controller, site, "chat", 2, prefer_labels={"zone": "near"})
        server.eventually(lambda: node_of(site, "chat") == liked, "it is bound to the node that its user prefers")
        deployed(controller, site, "code", 2, fallback=Fallback.PIN)
        assert "Note: fallback: the planner of Corral's server binds pods to their nodes" in site.text()
        server.eventually(lambda: "3 GPUs" in server.corral("why", "2"), "the next one waits for its quota")


def test_a_leader_and_its_worker_are_one_job_that_starts_as_a_whole(site: Site, server: Server) -> None:
    nodes = [site.node("a"), site.node("b", gpus=4)]
    site.ready_on(*nodes)
    part = {"runner": {"name": "ome-container", "image": "example.test/server:1"}}
    spec = {"engineConfig": {"leader": part, "worker": {"size": 1, **part}}}
    runtimes = KINDS["ome"].runtimes[0]
    site.cluster.create(runtimes, {"metadata": {"name": f"over-{site.tag}"}, "spec": spec})
    with Client(server.home) as client:
        controller = CONTROLLERS["ome"](site.cluster, say=site.said.append, client=client)
        made = controller.deploy(replace(wanted(site, "chat", 16), runtime_name=f"over-{site.tag}"))
        engine = made["spec"]["engine"]
        for role in ("leader", "worker"):
            one = pod(f"chat-{role}", site.namespace, gpus=8, nodeSelector={"site": site.tag})
            one["spec"]["schedulerName"] = engine[role]["schedulerName"]
            one["metadata"]["annotations"] = engine["annotations"]
            site.cluster.create(PODS, one)
        server.eventually(lambda: "waits" in server.corral("why", "1"), "it waits for two nodes with 8 GPUs")
        (job,) = client.jobs.list()
        assert (job.name, job.gpus) == (f"{site.namespace}/chat", 16)
        second = site.node("c")
        server.eventually(lambda: "STARTING" in server.corral("ps"), "it starts once there are two")
    places = [
        site.cluster.get(PODS, f"chat-{role}", site.namespace)["spec"].get("nodeName") for role in ("leader", "worker")
    ]
    assert sorted(places) == sorted([nodes[0], second])


def test_what_a_server_of_another_cluster_binds_is_no_reason_to_name_its_scheduler(site: Site, server: Server) -> None:
    node = site.node("a")
    site.ready_on(node)
    with Client(server.home) as client:
        about = client.server()
        assert (about.pod_scheduler, about.cluster_uid) == (site.namespace, cluster_uid(site.cluster))
        site.cluster.patch(NAMESPACES, "kube-system", {"metadata": {"labels": {"seen": "yes"}}})
        assert pod_scheduler(client, site.cluster) == site.namespace
    server.corral("down")
    made = CONTROLLERS["ome"](site.cluster, say=site.said.append).deploy(wanted(site, "chat", 2))
    assert made["metadata"]["annotations"]["corral.dev/node"] == node
    assert "schedulerName" not in made["spec"]["engine"]
