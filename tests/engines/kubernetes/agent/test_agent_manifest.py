"""The manifest of the agents is one that an API server takes, and what it runs is what the agent understands."""

from pathlib import Path
from typing import Any

import yaml

from corral.engines.kubernetes.agent.program import TOKEN_FILE, options_of
from corral.engines.kubernetes.agent_reports.token_reviews import AUDIENCE
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.resource import CONFIG_MAPS, NAMESPACES, ResourceType
from tests.engines.kubernetes.agent_reports.agents import ACCOUNTS

ROOT = Path(__file__).parents[4]
OBJECTS: list[dict[str, Any]] = list(yaml.safe_load_all((ROOT / "deploy/kubernetes/agent.yaml").read_text()))
FOR_PLUGINS = list(yaml.safe_load_all((ROOT / "deploy/kubernetes/device-plugin.yaml").read_text()))
_RBAC = "rbac.authorization.k8s.io"
_KINDS = {
    "Namespace": NAMESPACES,
    "ServiceAccount": ACCOUNTS,
    "ClusterRole": ResourceType(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
    "ClusterRoleBinding": ResourceType(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    "ConfigMap": CONFIG_MAPS,
    "DaemonSet": ResourceType("apps", "v1", "daemonsets", "DaemonSet"),
}


def test_an_api_server_takes_the_manifest(cluster: Cluster, namespace: str) -> None:
    for one in (*OBJECTS, *FOR_PLUGINS):
        kind = _KINDS[one["kind"]]
        # Names that are this test's own, for other tests share the server.
        own = {**one["metadata"], "name": f"{namespace}-agent", "namespace": namespace if kind.namespaced else None}
        made = cluster.create(kind, {**one, "metadata": own}, namespace if kind.namespaced else None, dry_run=True)
        assert made["kind"] == one["kind"]


def test_the_patch_for_device_plugins_fits_the_agents(cluster: Cluster, namespace: str) -> None:
    agents = next(one for one in OBJECTS if one["kind"] == "DaemonSet")
    cluster.create(_KINDS["DaemonSet"], {**agents, "metadata": {"name": "agents"}}, namespace)
    patch = yaml.safe_load((ROOT / "deploy/kubernetes/device-plugin-patch.yaml").read_text())
    made = cluster.patch(_KINDS["DaemonSet"], "agents", patch, namespace, patch_type="strategic")
    spec = made["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    options = options_of(container["args"][2:])
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    hosts = {one["name"]: one["hostPath"]["path"] for one in spec["volumes"] if "hostPath" in one}
    assert options.device_plugin
    assert options.config == Path(mounts["node"]) / "config.yaml"
    assert str(options.home) == mounts["home"] == hosts["home"]
    assert mounts["device-plugins"] == hosts["device-plugins"] == str(options.kubelet_dir / "device-plugins")
    assert {"token", "ca", "pod-resources"} <= set(mounts)


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
