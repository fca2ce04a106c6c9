"""The client against a real API server."""

import uuid
from pathlib import Path

import pytest

from corral.engines.kubernetes.cluster.client import Cluster, Selection
from corral.engines.kubernetes.cluster.errors import AlreadyExists, MissingRight, NoSuchObject, ObjectChanged, Rejected
from corral.engines.kubernetes.cluster.node_facts import read_node
from corral.engines.kubernetes.cluster.object_watch import ObjectWatch
from corral.engines.kubernetes.cluster.resource import CONFIG_MAPS, NODES, PODS
from tests.engines.kubernetes.control_plane import NOBODY, ControlPlane
from tests.engines.kubernetes.manifests import pod
from tests.engines.kubernetes.nodes import make_node


def test_an_object_is_made_once_read_and_deleted_by_its_uid(cluster: Cluster, namespace: str) -> None:
    made = cluster.create(PODS, pod("one", namespace))
    with pytest.raises(AlreadyExists):
        cluster.create(PODS, pod("one", namespace))
    assert cluster.get(PODS, "one", namespace)["metadata"]["uid"] == made["metadata"]["uid"]
    with pytest.raises(ObjectChanged):
        cluster.delete(PODS, "one", namespace, uid=str(uuid.uuid4()), grace_s=0)
    cluster.delete(PODS, "one", namespace, uid=made["metadata"]["uid"], grace_s=0)
    cluster.delete(PODS, "one", namespace)
    with pytest.raises(NoSuchObject, match="one"):
        cluster.get(PODS, "one", namespace)


def test_a_listing_has_all_pages(cluster: Cluster, namespace: str) -> None:
    for number in range(5):
        cluster.create(CONFIG_MAPS, {"metadata": {"name": f"map-{number}", "namespace": namespace}})
    first = cluster.page(CONFIG_MAPS, Selection(namespace), limit=2)
    assert len(first.items) == 2
    assert first.continue_token
    names = [item["metadata"]["name"] for item in cluster.list(CONFIG_MAPS, Selection(namespace))]
    assert [f"map-{number}" for number in range(5)] == [name for name in names if name.startswith("map-")]


def test_a_pod_is_bound_once_and_to_one_node(cluster: Cluster, namespace: str) -> None:
    nodes = [f"{namespace}-{letter}" for letter in "ab"]
    for name in nodes:
        make_node(cluster, name)
    uid = cluster.create(PODS, pod("one", namespace))["metadata"]["uid"]
    cluster.bind("one", namespace, uid, nodes[0])
    cluster.bind("one", namespace, uid, nodes[0])
    with pytest.raises(ObjectChanged):
        cluster.bind("one", namespace, uid, nodes[1])
    assert cluster.get(PODS, "one", namespace)["spec"]["nodeName"] == nodes[0]


def test_a_node_without_a_kubelet_is_ready_with_its_devices(cluster: Cluster, namespace: str) -> None:
    make_node(cluster, f"{namespace}-n", gpus=4, labels={"nvidia.com/gpu.product": "A100"})
    facts = read_node(cluster.get(NODES, f"{namespace}-n"))
    assert facts.ready
    assert facts.taints == ()
    assert facts.allocatable.of("nvidia.com/gpu") == 4
    assert facts.allocatable.memory_bytes == 512 << 30


def test_what_the_api_server_does_not_accept_is_said_in_its_words(cluster: Cluster, namespace: str) -> None:
    with pytest.raises(Rejected, match="restartPolicy"):
        cluster.create(PODS, pod("one", namespace, restartPolicy="Sometimes"))


def test_a_missing_right_is_named(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    stranger = control_plane.connect(tmp_path, NOBODY)
    with pytest.raises(MissingRight, match="may not list pods in namespace") as refused:
        stranger.list(PODS, Selection(namespace))
    assert (refused.value.verb, refused.value.resource, refused.value.namespace) == ("list", "pods", namespace)
    assert not stranger.can_i("create", PODS, namespace=namespace, subresource="binding")
    with pytest.raises(MissingRight, match="in the whole cluster"):
        stranger.list(NODES)
    stranger.close()


def test_a_watcher_without_rights_says_at_once_which(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    stranger = control_plane.connect(tmp_path, NOBODY)
    watch = ObjectWatch(stranger, PODS, Selection(namespace))
    watch.start()
    try:
        with pytest.raises(MissingRight, match="list pods"):
            watch.wait_until_synced(60)
    finally:
        watch.stop()
        stranger.close()


def test_who_may_do_it_is_told_so(cluster: Cluster, namespace: str) -> None:
    assert cluster.can_i("create", PODS, namespace=namespace, subresource="binding")
    assert cluster.version() >= (1, 20)
