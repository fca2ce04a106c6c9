"""The rights that the documentation asks for are enough, and no more than what is used."""

import time
from pathlib import Path

import pytest

from corral.engines.kubernetes.cluster.client import Cluster, Selection
from corral.engines.kubernetes.cluster.errors import MissingRight
from corral.engines.kubernetes.cluster.node_facts import read_node
from corral.engines.kubernetes.cluster.object_watch import ObjectWatch
from corral.engines.kubernetes.cluster.pod_facts import read_pod
from corral.engines.kubernetes.cluster.resource import LEASES, NODES, PODS, SECRETS
from tests.engines.kubernetes.manifests import pod
from tests.engines.kubernetes.nodes import make_node
from tests.engines.kubernetes.rights import documented_rights

PATIENCE_S = 60.0


def test_a_server_with_the_documented_rights_sees_and_binds(
    cluster: Cluster, cluster_of_corral: Cluster, namespace: str
) -> None:
    make_node(cluster, f"{namespace}-n")
    watches = ObjectWatch(cluster_of_corral, NODES), ObjectWatch(cluster_of_corral, PODS)
    nodes, pods = watches[0].cache(read_node), watches[1].cache(read_pod)
    for watch in watches:
        watch.start()
    try:
        for watch in watches:
            watch.wait_until_synced(PATIENCE_S)
        assert nodes.get(f"{namespace}-n") is not None
        made = cluster_of_corral.create(PODS, pod("one", namespace, gpus=1))
        cluster_of_corral.bind("one", namespace, made["metadata"]["uid"], f"{namespace}-n")
        until = time.monotonic() + PATIENCE_S
        while (seen := pods.get("one", namespace)) is None or seen.node is None:
            assert time.monotonic() < until
            time.sleep(0.02)
        cluster_of_corral.delete(PODS, "one", namespace, grace_s=0)
    finally:
        for watch in watches:
            watch.stop()


def test_it_can_read_no_secret(cluster_of_corral: Cluster, namespace: str) -> None:
    with pytest.raises(MissingRight, match="'list' on secrets"):
        cluster_of_corral.list(SECRETS, Selection(namespace))


def test_the_manifest_that_is_delivered_is_the_documented_one() -> None:
    delivered = Path(__file__).parents[4] / "deploy" / "kubernetes" / "rights.yaml"
    assert delivered.read_text() == documented_rights()


def test_it_may_change_no_lease_of_a_node(cluster_of_corral: Cluster) -> None:
    assert not any(cluster_of_corral.can_i(verb, LEASES, namespace="kube-node-lease") for verb in ("get", "patch"))
