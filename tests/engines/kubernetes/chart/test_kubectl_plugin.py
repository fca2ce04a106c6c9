"""`kubectl corral`, by a real kubectl and through a real API server's proxy to a server."""

import json
import os
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import AlreadyExists
from corral.engines.kubernetes.cluster.resource import NAMESPACES, PODS, SERVICES, ResourceType
from tests.certificates import make_certificate
from tests.engines.kubernetes.binding.site import pod_of_others
from tests.engines.kubernetes.chart.helm import CHART, SYSTEM, find
from tests.engines.kubernetes.engine.site import Site
from tests.engines.kubernetes.manifests import pod
from tests.engines.kubernetes.nodes import make_node

PLUGIN = CHART.parents[1] / "kubectl-corral"
ENDPOINTS = ResourceType("", "v1", "endpoints", "Endpoints")


def own_address() -> str:
    """An address of this host that an API server reaches; it refuses to reach loopback for others."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this host has no address but loopback")
        found: str = probe.getsockname()[0]
    return found


def plugin(site: Site, directory: Path, *words: str, token: str = "", status: int = 0) -> str:
    """What kubectl says with the plugin on the PATH."""
    directory.mkdir(exist_ok=True)
    kubectl = find("kubectl")
    assert kubectl is not None
    for name, target in (("kubectl-corral", PLUGIN), ("kubectl", Path(kubectl))):
        if not (directory / name).exists():
            (directory / name).symlink_to(target)
    env = {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}", "KUBECONFIG": str(site.kubeconfig)}
    env |= {"CORRAL_TOKEN": token}
    done = subprocess.run(["kubectl", "corral", *words], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def waiting(site: Site) -> str:
    """A pod that asks for more than its node has, so that it waits."""
    make_node(site.cluster, f"{site.prefix}-a", gpus=1)
    waits = pod_of_others("waits", site.namespace, gpus=2)
    waits["spec"] |= {"schedulerName": site.prefix, "nodeSelector": {"kubernetes.io/hostname": f"{site.prefix}-a"}}
    site.cluster.create(PODS, waits, site.namespace)
    site.home.mkdir(exist_ok=True)
    (site.home / "config.yaml").write_text(f"kubernetes: {{scheduler_name: {site.prefix}}}\n")
    return "waits"


def test_a_pod_that_waits_says_why_through_the_api_servers_proxy(site: Site, waiting: str, tmp_path: Path) -> None:
    address = own_address()
    certificate, key = make_certificate(tmp_path)
    with socket.socket() as free:
        free.bind((address, 0))
        port = free.getsockname()[1]
    site.up(f"--listen={address}:{port}", f"--tls-cert={certificate}", f"--tls-key={key}")
    serve_in_cluster(site.cluster, site.prefix, address, port)
    site.until("ps", says=f"{site.namespace}/waits")
    site.until("why", "1", says="GPUs")
    token = json.loads(site.corral("token", "create", "--scope", "read", "--json"))["token"]
    words = ("why", waiting, "--service", site.prefix)
    told = plugin(site, tmp_path / "bin", *words, token=token)
    assert f"job 1 ({site.namespace}/waits): PENDING" in told
    assert "2 GPUs" in told
    assert "token is unknown" in plugin(site, tmp_path / "bin", *words, token="x" * 40, status=1)
    until_told(site, tmp_path / "bin", waiting, "2 GPUs")
    assert "not found" in plugin(site, tmp_path / "bin", "why", "nobody", token=token, status=1)


def until_told(site: Site, directory: Path, waiting: str, reason: str) -> None:
    """Without a token the plugin reads the pod alone: the server writes its reason there a moment later."""
    for _ in range(60):
        without = plugin(site, directory, "why", waiting, "-n", site.namespace)
        assert "Pending, scheduler" in without
        if reason in without:
            return
        time.sleep(0.5)
    raise AssertionError(f"the pod was never told {reason!r}: {without}")


def serve_in_cluster(cluster: Cluster, name: str, address: str, port: int) -> None:
    """A service of the chart's form, whose pod is a process of this host: an API server reaches pods alone."""
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    with suppress(AlreadyExists):
        cluster.create(NAMESPACES, {"metadata": {"name": SYSTEM}})
    cluster.create(SERVICES, {"metadata": {"name": name}, "spec": {"ports": ports}}, SYSTEM)
    cluster.create(PODS, pod(name, SYSTEM), SYSTEM)
    cluster.patch(PODS, name, {"status": {"podIP": address, "podIPs": [{"ip": address}]}}, SYSTEM, subresource="status")
    target = {"kind": "Pod", "name": name, "namespace": SYSTEM}
    subsets = [{"addresses": [{"ip": address, "targetRef": target}], "ports": ports}]
    cluster.create(ENDPOINTS, {"metadata": {"name": name}, "subsets": subsets}, SYSTEM)
