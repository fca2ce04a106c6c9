"""The chart in a real cluster: installed, upgraded, rolled back, uninstalled, while a server runs under its account.

Nothing runs the chart's own pods here, so the server is a process: with the arguments, settings, certificate and token
that its pod would have.
"""

import base64
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from corral.engines.kubernetes.cluster.client import Cluster, Selection
from corral.engines.kubernetes.cluster.resource import NAMESPACES, PODS
from corral.engines.kubernetes.cluster.rights import missing_rights
from corral.engines.kubernetes.doctor import RIGHTS
from tests.engines.kubernetes.binding.site import pod_of_others
from tests.engines.kubernetes.chart.helm import Release, rendered, run
from tests.engines.kubernetes.control_plane import ControlPlane
from tests.engines.kubernetes.kubelet import Kubelet

pytestmark = pytest.mark.long
PATIENCE_S = 90.0


def kubeconfig_of(release: Release, plane: ControlPlane, path: Path) -> Path:
    """How the pod of the server reaches the API server: with a token of its account, without anything else."""
    token = release.kubectl("create", "token", release.name, "--namespace=corral-system", "--duration=1h").strip()
    plane.kubeconfig(path, token, namespace=release.jobs)
    return path


@dataclass
class InstalledServer:
    """The server of a release, as its StatefulSet would have it."""

    release: Release
    home: Path
    kubeconfig: Path
    variables: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        """Returns when the server answers. Files are those that the pod has mounted."""
        self.home.mkdir(exist_ok=True)
        settings = self.release.get("configmap", self.release.name)["data"]
        (self.home / "config.yaml").write_text(settings["config.yaml"])
        for name, content in self.release.get("secret", f"{self.release.name}-tls")["data"].items():
            (self.home / name).write_bytes(base64.b64decode(content))
            (self.home / name).chmod(0o600)
        pod = self.release.get("statefulset", self.release.name)["spec"]["template"]["spec"]
        mounted = {"--listen=0.0.0.0:7443": "--listen=127.0.0.1:0"}
        args = [
            mounted.get(one, one.replace("/etc/corral-tls", str(self.home))) for one in pod["containers"][0]["args"]
        ]
        self.corral(args[0], "--detach", *args[1:], f"--kubeconfig={self.kubeconfig}")

    def corral(self, *words: str, status: int | None = 0, **variables: str) -> str:
        env = {**os.environ, "CORRAL_HOME": str(self.home), "NO_COLOR": "1", "COLUMNS": "200", **variables}
        command = [str(Path(sys.executable).parent / "corral"), *words]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE_S)
        assert status in (None, done.returncode), f"{words}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr


@contextmanager
def installed(kubeconfig: Path) -> Iterator[Release]:
    release = Release(kubeconfig)
    release.install(
        {
            "agents": {"enabled": True, "devicePlugin": {"enabled": True}},
            "rights": {"commandsInJobs": True, "modelServices": True},
        }
    )
    yield release
    release.helm("uninstall", release.name, "--ignore-not-found")


@pytest.fixture(scope="module")
def release(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    """A release that no test changes."""
    with installed(control_plane.kubeconfig(tmp_path_factory.mktemp("release") / "admin")) as release:
        yield release


@pytest.fixture
def own_release(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Release]:
    """A release that the test may change and uninstall."""
    with installed(control_plane.kubeconfig(tmp_path / "admin")) as release:
        yield release


@pytest.fixture
def server(own_release: Release, control_plane: ControlPlane, tmp_path: Path) -> Iterator[InstalledServer]:
    account = kubeconfig_of(own_release, control_plane, tmp_path / "account")
    server = InstalledServer(own_release, tmp_path / "home", account)
    server.start()
    yield server
    server.corral("down", status=None)


@pytest.fixture
def kubelet(cluster: Cluster, own_release: Release, tmp_path: Path) -> Iterator[Kubelet]:
    kubelet = Kubelet(cluster, f"{own_release.name}-gpu", tmp_path / "kubelet", gpus=4)
    kubelet.start({"kubernetes.io/hostname": f"{own_release.name}-gpu"})
    yield kubelet
    kubelet.close()


def eventually(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"it does not come about that {what}"
        time.sleep(0.2)


def test_the_account_has_every_right_that_doctor_looks_for(
    release: Release, control_plane: ControlPlane, tmp_path: Path
) -> None:
    wanted = [right for rights in RIGHTS.values() for right in rights]
    with closing(Cluster.connect(str(kubeconfig_of(release, control_plane, tmp_path / "account")))) as account:
        # An API server takes a moment to know of a role.
        eventually(lambda: not missing_rights(account, wanted), "all are granted")
        assert not account.can_i("create", PODS, namespace="default")


def test_an_api_server_takes_the_configurations_of_the_webhook(release: Release) -> None:
    values = {"webhook": {"enabled": True}, "settings": {"kubernetes": {"admission_without_certificate": True}}}
    made = [item for item in rendered(values=values) if item["kind"].endswith("WebhookConfiguration")]
    words = ("create", "--dry-run=server", "--filename=-")
    said = run("kubectl", *words, kubeconfig=release.kubeconfig, typed=yaml.safe_dump_all(made))
    assert said.count("created (server dry run)") == 2


def test_the_certificate_is_good_for_the_names_of_the_service(release: Release, tmp_path: Path) -> None:
    for name, content in release.get("secret", f"{release.name}-tls")["data"].items():
        (tmp_path / name).write_bytes(base64.b64decode(content))
    for name in (f"{release.name}.corral-system.svc", release.name, "localhost"):
        words = ("-CAfile", str(tmp_path / "ca.crt"), "-verify_hostname", name, str(tmp_path / "tls.crt"))
        subprocess.run(["openssl", "verify", *words], check=True, capture_output=True)


def test_jobs_and_pods_run_and_outlive_an_upgrade_a_rollback_and_the_chart(
    server: InstalledServer, cluster: Cluster, namespace: str, kubelet: Kubelet, tmp_path: Path
) -> None:
    release = server.release
    chosen = ("--image", "repo/train:1", "--node", kubelet.name)
    assert "hello" in server.corral("run", *chosen, "--", "echo", "hello")
    ended = tmp_path / "end"
    waits = ("sh", "-c", f"until [ -e {ended} ]; do sleep 0.1; done")
    server.corral("submit", *chosen, "--name", "long", "--", *waits)
    theirs = pod_of_others("theirs", namespace, containers=[container(*waits)])
    theirs["spec"] |= {"schedulerName": release.name, "nodeSelector": {"kubernetes.io/hostname": kubelet.name}}
    cluster.create(PODS, theirs, namespace)
    eventually(lambda: server.corral("ps").count("RUNNING") == 2, "both run")
    uids = running_pods(cluster, release.jobs) | running_pods(cluster, namespace)

    certificate = release.get("secret", f"{release.name}-tls")["data"]
    release.upgrade({"settings": {"kill_grace": "7s", "kubernetes": {"scheduler_name": release.name}}})
    restart(server)
    assert release.get("secret", f"{release.name}-tls")["data"] == certificate
    assert "kill_grace: 7s" in (server.home / "config.yaml").read_text()
    assert server.corral("ps").count("RUNNING") == 2
    release.helm("rollback", release.name, "1")
    restart(server)
    assert "kill_grace" not in (server.home / "config.yaml").read_text()
    assert running_pods(cluster, release.jobs) | running_pods(cluster, namespace) == uids

    ended.touch()
    eventually(lambda: server.corral("ps", "--all").count("SUCCEEDED") == 3, "all have succeeded")
    server.corral("submit", *chosen, "--", "sleep", "600")
    eventually(lambda: running_pods(cluster, release.jobs), "another runs")
    assert "forbidden" not in (server.home / "server.log").read_text().lower()
    server.corral("down")

    uids = running_pods(cluster, release.jobs)
    release.helm("uninstall", release.name)
    assert running_pods(cluster, release.jobs) == uids
    assert cluster.get(NAMESPACES, release.jobs)["status"]["phase"] == "Active"
    left = (
        "get",
        "statefulset,daemonset,serviceaccount,service,role,rolebinding,networkpolicy,configmap,secret",
        "--output=name",
    )
    assert release.name not in release.kubectl(*left, "--namespace=corral-system")
    assert release.name not in release.kubectl("get", "clusterrole,clusterrolebinding", "--output=name")


def restart(server: InstalledServer) -> None:
    """As a StatefulSet does when its template has changed."""
    server.corral("down")
    server.start()


def running_pods(cluster: Cluster, namespace: str) -> set[str]:
    found = cluster.list(PODS, Selection(namespace))
    return {pod["metadata"]["uid"] for pod in found if pod["status"].get("phase") == "Running"}


def container(*command: str) -> dict[str, Any]:
    return {
        "name": "main",
        "image": "busybox",
        "command": list(command),
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
