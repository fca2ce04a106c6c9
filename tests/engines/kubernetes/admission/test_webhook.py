"""A real API server asks a real server about pods of namespaces that opt in; where nobody answers, pods go in."""

import re
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from corral.core.model.errors import CorralError
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import ClusterFailed, ClusterUnreachable, NoSuchObject
from corral.engines.kubernetes.cluster.resource import NAMESPACES, PODS, ResourceType
from tests.certificates import make_certificate, needs_openssl
from tests.engines.kubernetes.assets import find_program
from tests.engines.kubernetes.control_plane import ControlPlane, Processes, reserved_port
from tests.engines.kubernetes.engine.binding_server import Server
from tests.engines.kubernetes.manifests import pod
from tests.engines.kubernetes.nodes import make_node

CONFIGURATIONS = {
    kind: ResourceType("admissionregistration.k8s.io", "v1", f"{kind.lower()}s", kind, namespaced=False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}
needs_api_server = pytest.mark.skipif(find_program("kube-apiserver") is None, reason="no kube-apiserver")
WIDE = ["vllm", "serve", "Qwen/Qwen2.5-7B", "--tensor-parallel-size", "4"]


@dataclass(frozen=True)
class Listed:
    """A cluster and the server of Corral at a port, whose certificate is signed by `authority`."""

    cluster: Cluster
    authority: Path
    port: int


@contextmanager
def configured(cluster: Cluster, url: str, authority: Path, only: str, *more: str) -> Iterator[None]:
    """What the command prints is in the cluster, for namespaces of this test alone."""
    command = [str(Path(sys.executable).parent / "corral"), "kubernetes", "webhook-config", url, "--ca", str(authority)]
    done = subprocess.run([*command, *more], capture_output=True, text=True, check=True, timeout=60)
    name, made = f"corral-{only}", list(yaml.safe_load_all(done.stdout))
    try:
        for body in made:
            body["metadata"]["name"] = name
            body["webhooks"][0]["namespaceSelector"]["matchLabels"] = {"test": only}
            cluster.create(CONFIGURATIONS[body["kind"]], body)
        yield
    finally:
        for body in made:
            cluster.delete(CONFIGURATIONS[body["kind"]], name)


@pytest.fixture
def opted_in(cluster: Cluster, namespace: str) -> str:
    """A namespace whose pods Corral is to place, in a queue and a project of its own."""
    name = f"{namespace}-in"
    marks = {"corral.dev/admission": "enabled", "test": name, "corral.dev/project": "vision"}
    cluster.create(NAMESPACES, {"metadata": {"name": name, "labels": marks}})
    return name


def asking(name: str, namespace: str, *, gpus: int = 1, command: list[str] | None = None, **spec: Any) -> Any:
    made = pod(name, namespace, gpus=gpus, **spec)
    if command is not None:
        made["spec"]["containers"][0]["command"] = command
    return made


@needs_openssl
def test_pods_with_gpus_are_corrals_and_those_that_can_never_run_are_refused(
    tmp_path: Path, control_plane: ControlPlane, cluster: Cluster, namespace: str, opted_in: str
) -> None:
    node = f"wh-{uuid.uuid4().hex[:6]}"
    make_node(cluster, node, gpus=4)
    kubeconfig = control_plane.kubeconfig(tmp_path / "kubeconfig", namespace=namespace)
    certificate, key = make_certificate(tmp_path)
    callers, _ = make_certificate(tmp_path, "kube-apiserver")
    server = Server(tmp_path / "home", kubeconfig, cluster, namespace, node)
    with (tmp_path / "home" / "config.yaml").open("a") as settings:
        settings.write("  admission_without_certificate: true\nprojects:\n  - {name: vision}\n")
    tls = ("--tls-cert", str(certificate), "--tls-key", str(key), "--tls-client-ca", str(callers))
    try:
        server.corral("up", "--detach", "--listen", "127.0.0.1:0", *tls)
        url = re.search(r"serving on .*(https://[0-9.]+:\d+)", server.log())
        assert url is not None, server.log()
        with configured(cluster, url[1], certificate, opted_in, "--failure-policy", "Fail", "--timeout", "10"):
            cluster.create(PODS, asking("one", opted_in), opted_in)
            found = cluster.get(PODS, "one", opted_in)
            assert found["spec"]["schedulerName"] == namespace
            assert found["metadata"]["annotations"]["corral.dev/project"] == "vision"
            cluster.create(PODS, asking("plain", opted_in, gpus=0), opted_in)
            assert cluster.get(PODS, "plain", opted_in)["spec"]["schedulerName"] == "default-scheduler"
            cluster.create(PODS, asking("other", opted_in, schedulerName="theirs"), opted_in)
            assert cluster.get(PODS, "other", opted_in)["spec"]["schedulerName"] == "theirs"
            with pytest.raises(CorralError, match="the program uses 4 GPUs and 2 would be granted"):
                cluster.create(PODS, asking("wide", opted_in, gpus=2, command=WIDE), opted_in)
            nowhere = asking("queued", opted_in)
            nowhere["metadata"]["annotations"] = {"corral.dev/queue": "nowhere"}
            with pytest.raises(CorralError, match="nowhere"):
                cluster.create(PODS, nowhere, opted_in)
            server.eventually(lambda: f"{opted_in}/one" in server.corral("ps", "--all"), "the first pod is a job")
    finally:
        server.corral("down")


@needs_openssl
def test_where_nobody_answers_in_time_a_pod_goes_in(tmp_path: Path, cluster: Cluster, opted_in: str) -> None:
    certificate, _ = make_certificate(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        with configured(cluster, url, certificate, opted_in, "--timeout", "1"):
            cluster.create(PODS, asking("one", opted_in), opted_in)
            assert cluster.get(PODS, "one", opted_in)["spec"]["schedulerName"] == "default-scheduler"
        with (
            configured(cluster, url, certificate, opted_in, "--timeout", "1", "--failure-policy", "Fail"),
            pytest.raises((ClusterFailed, ClusterUnreachable)),  # on a busy machine its refusal may come too late
        ):
            cluster.create(PODS, asking("two", opted_in), opted_in)
        with pytest.raises(NoSuchObject):
            cluster.get(PODS, "two", opted_in)


def showing(directory: Path, certificates: dict[str, tuple[Path, Path]]) -> str:
    """The option of an API server by which it shows a certificate (file, key) to the webhooks at an address."""
    users = [
        {"name": address, "user": {"client-certificate": str(certificate), "client-key": str(key)}}
        for address, (certificate, key) in certificates.items()
    ]
    shown, file = directory / "shown.kubeconfig", directory / "admission.yaml"
    shown.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "users": users}))
    group = "apiserver.config.k8s.io/v1"
    configuration = {"apiVersion": group, "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": str(shown)}
    plugins = [
        {"name": f"{kind}AdmissionWebhook", "configuration": configuration} for kind in ("Mutating", "Validating")
    ]
    file.write_text(yaml.safe_dump({"apiVersion": group, "kind": "AdmissionConfiguration", "plugins": plugins}))
    return f"--admission-control-config-file={file}"


@pytest.fixture
def listed(tmp_path: Path) -> Iterator[Listed]:
    """An API server that shows the name `kube-apiserver` at 127.0.0.1 and another one at localhost, and a server of
    Corral for the first.
    """
    callers = {name: make_certificate(tmp_path, name) for name in ("kube-apiserver", "somebody")}
    trusted = tmp_path / "callers.pem"
    trusted.write_text("".join(certificate.read_text() for certificate, _ in callers.values()))
    certificate, key = make_certificate(tmp_path)
    with reserved_port() as held:
        port = held.getsockname()[1]
        shown = {f"127.0.0.1:{port}": callers["kube-apiserver"], f"localhost:{port}": callers["somebody"]}
        processes = Processes(tmp_path / "control-plane", [showing(tmp_path, shown)])
        try:
            plane = processes.start()
            with closing(plane.connect(tmp_path)) as cluster:
                for name, labels in (("jobs", {}), ("team", {"corral.dev/admission": "enabled", "test": "team"})):
                    cluster.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
                kubeconfig = plane.kubeconfig(tmp_path / "kubeconfig", namespace="jobs")
                server = Server(tmp_path / "home", kubeconfig, cluster, "jobs", "g1")
                tls = ("--tls-cert", str(certificate), "--tls-key", str(key), "--tls-client-ca", str(trusted))
                try:
                    server.corral("up", "--detach", "--listen", f"127.0.0.1:{port}", *tls)
                    yield Listed(cluster, certificate, port)
                finally:
                    server.corral("down")
        finally:
            processes.stop()


@needs_openssl
@needs_api_server
def test_the_certificate_that_an_api_server_is_told_to_show_is_served_by_its_name(listed: Listed) -> None:
    fails = ("--failure-policy", "Fail", "--timeout", "10")
    with configured(listed.cluster, f"https://127.0.0.1:{listed.port}", listed.authority, "team", *fails):
        listed.cluster.create(PODS, asking("one", "team"), "team")
        assert listed.cluster.get(PODS, "one", "team")["spec"]["schedulerName"] == "jobs"
    with (
        configured(listed.cluster, f"https://localhost:{listed.port}", listed.authority, "team", *fails),
        pytest.raises(CorralError, match=r"kubernetes\.admission_callers"),
    ):
        listed.cluster.create(PODS, asking("two", "team"), "team")
