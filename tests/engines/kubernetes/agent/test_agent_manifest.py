"""The manifest of the agents is one that an API server takes, and what it runs is what the agent understands."""

from pathlib import Path
from typing import Any

import yaml

from corral.engines.kubernetes.agent.program import TOKEN_FILE, options_of
from corral.engines.kubernetes.agent_reports.token_reviews import AUDIENCE
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.resource import NAMESPACES, ResourceType
from tests.engines.kubernetes.agent_reports.agents import ACCOUNTS

ROOT = Path(__file__).parents[4]
OBJECTS: list[dict[str, Any]] = list(yaml.safe_load_all((ROOT / "deploy/kubernetes/agent.yaml").read_text()))
_RBAC = "rbac.authorization.k8s.io"
_KINDS = {
    "Namespace": NAMESPACES,
    "ServiceAccount": ACCOUNTS,
    "ClusterRole": ResourceType(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
    "ClusterRoleBinding": ResourceType(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    "DaemonSet": ResourceType("apps", "v1", "daemonsets", "DaemonSet"),
}


def test_an_api_server_takes_the_manifest(cluster: Cluster, namespace: str) -> None:
    for one in OBJECTS:
        kind = _KINDS[one["kind"]]
        # Names that are this test's own, for other tests share the server.
        own = {**one["metadata"], "name": f"{namespace}-agent", "namespace": namespace if kind.namespaced else None}
        made = cluster.create(kind, {**one, "metadata": own}, namespace if kind.namespaced else None, dry_run=True)
        assert made["kind"] == one["kind"]


def test_the_agents_of_the_manifest_show_the_token_that_servers_accept() -> None:
    spec = next(one for one in OBJECTS if one["kind"] == "DaemonSet")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["args"][:2] == ["kubernetes", "agent"]
    options = options_of(container["args"][2:])
    assert options.server.startswith("https://")
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert options.ca_file == Path(mounts["ca"]) / "ca.crt"
    (token,) = (one["projected"]["sources"] for one in spec["volumes"] if one["name"] == "token")
    assert token[0]["serviceAccountToken"]["audience"] == AUDIENCE
    assert options.token_file == TOKEN_FILE == Path(mounts["token"]) / token[0]["serviceAccountToken"]["path"]
    assert mounts["pod-resources"] == str(options.kubelet_dir / "pod-resources")
