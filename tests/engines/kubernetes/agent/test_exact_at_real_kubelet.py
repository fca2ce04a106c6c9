"""From the driver to the container: the server plans a device by UUID, and a real kubelet gives the pod that one.

The agent is the installed program with the rights of its manifests, the token that the kubelet has made for its pod,
and mock devices; the API server, the kubelet and the containers are real.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import uuid as uuids
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from corral.core.model.errors import CorralError
from corral.engines.kubernetes.cluster.client import Cluster, Selection
from corral.engines.kubernetes.cluster.resource import NODES, PODS
from corral.engines.kubernetes.inventory.planned_devices import DEVICES
from tests.certificates import make_certificate, needs_openssl
from tests.engines.kubernetes.agent.plugin.hosts import some_library
from tests.engines.kubernetes.agent_reports.agents import ACCOUNT, make_account, token_of
from tests.engines.kubernetes.binding.site import pod_of_others
from tests.engines.kubernetes.control_plane import ControlPlane, reserved_port
from tests.engines.kubernetes.engine.conftest import site
from tests.engines.kubernetes.engine.site import PATIENCE_S, Site
from tests.engines.kubernetes.real_kubelet import IMAGE, RealKubelet, why_no_kubelet
from tests.engines.kubernetes.rights import give_rights_of

__all__ = ["site"]

LACKING = why_no_kubelet()
pytestmark = pytest.mark.skipif(LACKING is not None, reason=f"no real kubelet: {LACKING}")

MANIFESTS = Path(__file__).parents[4] / "deploy" / "kubernetes"
GPU = "nvidia.com/gpu"
CORES, MEMORY = "tencent.com/vcuda-core", "tencent.com/vcuda-memory"
MOCK = """
[[devices]]
mother_uuid = "{uuid}"
model_name = "Mock A100"
memory_size = "80G"
"""
SHOW_PART = ("sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES $CUDA_DEVICE_SM_LIMIT; sleep 1000")
SHOW = ("sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES; sleep 1000")


class Chain:
    """A server, a node with its kubelet, and the agent of the node."""

    def __init__(self, site: Site, kubelet: RealKubelet, plane: ControlPlane, directory: Path) -> None:
        self.site, self.kubelet = site, kubelet
        self.uuids = [f"GPU-{uuids.uuid4()}" for _ in range(4)]
        self._directory = directory
        (directory / "mock.toml").write_text("".join(MOCK.format(uuid=one) for one in self.uuids))
        account = make_account(site.cluster, site.namespace)
        for name in ("agent.yaml", "device-plugin.yaml"):
            give_rights_of(MANIFESTS / name, site.cluster, site.namespace, ACCOUNT)
        of_account = token_of(site.cluster, site.namespace, None, audiences=())
        self._kubeconfig = plane.kubeconfig(directory / "account", of_account)
        self._certificate, self._key = make_certificate(directory)
        self._port = reserved_port()
        self.port = self._port.getsockname()[1]
        site.home.mkdir()
        own = site.namespace
        settings = {"agent_account": account, "scheduler_name": own, "pod_users": [f"{own}=alice"]}
        (site.home / "config.yaml").write_text(yaml.safe_dump({"kubernetes": settings}))
        self.agent: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server and the agent. Returns when the kubelet offers the agent's devices."""
        self._port.close()
        tls = ("--tls-cert", str(self._certificate), "--tls-key", str(self._key))
        self.site.up("--listen", f"127.0.0.1:{self.port}", *tls)
        (self._directory / "token").write_text(self._token())
        self.start_agent()
        self.until(lambda: self.offered() == "4", "the kubelet does not offer the GPUs")

    def _token(self) -> str:
        """The token that the kubelet makes for the pod of the agents' manifest. The program itself runs beside it."""
        objects = yaml.safe_load_all((MANIFESTS / "agent.yaml").read_text())
        spec = next(one for one in objects if one["kind"] == "DaemonSet")["spec"]["template"]["spec"]
        (volume,) = (one for one in spec["volumes"] if one["name"] == "token")
        (mount,) = (one for one in spec["containers"][0]["volumeMounts"] if one["name"] == "token")
        command = ["sh", "-c", f"cat {mount['mountPath']}/token; echo; sleep 100000"]
        pod = {
            "metadata": {"name": "agent"},
            "spec": {
                "nodeName": self.kubelet.name,
                "serviceAccountName": ACCOUNT,
                "automountServiceAccountToken": False,
                "containers": [{"name": "agent", "image": IMAGE, "command": command, "volumeMounts": [mount]}],
                "volumes": [volume],
            },
        }
        cluster, namespace = self.site.cluster, self.site.namespace
        cluster.create(PODS, pod, namespace)
        return self.shown_by("agent")

    def start_agent(self, *more: str) -> None:
        words = ["--server", f"https://127.0.0.1:{self.port}", "--ca-file", str(self._certificate)]
        words += ["--token-file", str(self._directory / "token"), "--mock", str(self._directory / "mock.toml")]
        words += ["--kubelet-dir", str(self.kubelet.directory), "--home", str(self._directory / "agent")]
        env = {**os.environ, "NODE_NAME": self.kubelet.name, "KUBECONFIG": str(self._kubeconfig)}
        command = [str(Path(sys.executable).parent / "corral"), "kubernetes", "agent", "--device-plugin", *words, *more]
        with self.log.open("ab") as log:
            self.agent = subprocess.Popen(command, env=env, stdout=log, stderr=log)

    def kill_agent(self) -> None:
        if self.agent is not None:
            self.agent.kill()
            self.agent.wait()

    @property
    def log(self) -> Path:
        return self._directory / "agent.log"

    def until(self, holds: Callable[[], object], why: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            told = self.log.read_text()[-2000:] if self.log.exists() else ""
            assert time.monotonic() < deadline, f"{why}: {told}"
            time.sleep(0.2)

    def offered(self, resource: str = GPU) -> str | None:
        found = self.site.cluster.get(NODES, self.kubelet.name)["status"]["allocatable"].get(resource)
        return None if found is None else str(found)

    def share(self) -> None:
        """Start the agent with a setting by which parts of all devices are given, none of which is in use."""
        self.kill_agent()
        config = self._directory / "agent.yaml"
        config.write_text(yaml.safe_dump({"sharing": {"*": "hook"}, "hook": some_library()}))
        self.start_agent("--config", str(config))
        self.until(lambda: (self.offered(CORES), self.offered()) == ("400", "0"), "the kubelet does not offer parts")
        # Until the agent has reported that it serves them, the server counts the devices.
        self.until(lambda: self.means() == dict.fromkeys(self.uuids, "hook"), "the server does not see the parts")

    def means(self) -> dict[str, str]:
        """How the server shares each device of the node."""
        rows = json.loads(self.site.corral("devices", "--json"))
        return {row["uuid"]: row["means"] for row in rows if row["node"] == self.kubelet.name}

    def make(self, name: str, limits: dict[str, str], show: tuple[str, ...] = SHOW) -> None:
        """A pod that somebody else makes."""
        container = {"name": "main", "image": IMAGE, "command": list(show), "resources": {"limits": limits}}
        made = pod_of_others(name, self.site.namespace, containers=[container])
        self.site.cluster.create(PODS, made, self.site.namespace)

    def shown_by(self, name: str) -> str:
        """What a pod prints once it runs."""
        self.until(lambda: self.pod(name)["status"]["phase"] == "Running", f"{name} does not run")
        self.until(lambda: self.says(name), f"{name} says nothing")
        return self.says(name)

    def pod(self, name: str) -> dict[str, Any]:
        return dict(self.site.cluster.get(PODS, name, self.site.namespace))

    def pod_of(self, job: str) -> dict[str, Any]:
        """The pod that the server made for a job that runs."""
        for one in self.site.cluster.list(PODS, Selection(self.site.namespace)):
            if (one["metadata"].get("annotations") or {}).get("corral.dev/launch") == f"{job}.1":
                return one
        raise AssertionError(f"job {job} has no pod")

    def says(self, pod: str) -> str:
        return b"".join(self.site.cluster.read_log(pod, self.site.namespace).blocks()).decode().strip()

    def leave_only(self, *free: str) -> None:
        """Let jobs start on these devices alone. The kubelet and the plugin offer all as before."""
        for one in self.uuids:
            self.site.corral("uncordon" if one in free else "cordon", one)

    def ledger(self) -> dict[str, list[str]]:
        """The UUIDs of the devices of each job that has some."""
        found: dict[str, list[str]] = {}
        for row in json.loads(self.site.corral("devices", "--json")):
            for holder in row["holders"] if row["node"] == self.kubelet.name else ():
                found.setdefault(holder["job"], []).append(row["uuid"])
        return found


@pytest.fixture
def chain(site: Site, control_plane: ControlPlane) -> Iterator[Chain]:
    # The paths of its sockets, 108 bytes at most, begin with this directory.
    with tempfile.TemporaryDirectory(prefix="kubelet-") as directory:
        kubelet = RealKubelet(control_plane, site.cluster, Path(directory) / "host")
        chain = Chain(site, kubelet, control_plane, Path(directory))
        try:
            kubelet.start()
            chain.start()
            yield chain
        finally:
            site.corral("down", status=None)
            chain.kill_agent()
            remove_pods(site.cluster, site.namespace)
            kubelet.close()


def remove_pods(cluster: Cluster, namespace: str) -> None:
    with suppress(CorralError):
        for pod in cluster.list(PODS, Selection(namespace)):
            cluster.delete(PODS, pod["metadata"]["name"], namespace, grace_s=0)


@needs_openssl
def test_pods_get_the_devices_that_the_server_planned_and_its_ledger_says_so(chain: Chain) -> None:
    # One test: to start this node takes longer than all that is seen on it.
    site = chain.site
    site.until("devices", says=chain.uuids[3])

    # Jobs, each on the one device that is free for jobs, out of those that the kubelet could choose.
    for job, number in (("1", 2), ("2", 0)):
        chain.leave_only(chain.uuids[number])
        site.corral("submit", "--image", IMAGE, "--node", chain.kubelet.name, "--gpus", "1", "--", *SHOW)
        assert site.until("logs", job, says="GPU-").strip() == chain.uuids[number]
        assert chain.pod_of(job)["metadata"]["annotations"][DEVICES].startswith(f"{chain.uuids[number]}:1000:")
        assert chain.ledger()[job] == [chain.uuids[number]]

    # A pod that somebody else makes.
    chain.leave_only(chain.uuids[3])
    chain.make("theirs", {GPU: "1"})
    assert chain.shown_by("theirs") == chain.uuids[3]
    assert chain.ledger() == {"1": [chain.uuids[2]], "2": [chain.uuids[0]], "3": [chain.uuids[3]]}

    # An agent that is killed takes nothing from anybody, and the next gives only what is free.
    chain.kill_agent()
    chain.start_agent()
    chain.until(lambda: chain.offered() == "4", "the kubelet does not offer the GPUs again")
    chain.leave_only(*chain.uuids)
    site.corral("submit", "--image", IMAGE, "--node", chain.kubelet.name, "--gpus", "1", "--", *SHOW)
    assert site.until("logs", "4", says="GPU-").strip() == chain.uuids[1]
    assert chain.ledger()["4"] == [chain.uuids[1]]

    # What a job gives back is another's.
    site.corral("cancel", "1")
    site.until("show", "1", says="CANCELLED")
    site.corral("submit", "--image", IMAGE, "--node", chain.kubelet.name, "--gpus", "1", "--", *SHOW)
    assert site.until("logs", "5", says="GPU-").strip() == chain.uuids[2]
    # The same devices in parts, once nobody has them: both halves on the one device that is free for jobs.
    site.corral("cancel", "2", "3", "4", "5")
    chain.until(lambda: not chain.ledger(), "the jobs do not end")
    chain.share()
    chain.leave_only(chain.uuids[1])
    half = {CORES: "50", MEMORY: "160"}
    for name in ("half", "other-half"):
        chain.make(name, half, SHOW_PART)
        assert chain.shown_by(name) == f"{chain.uuids[1]} 50"
    assert chain.ledger() == {"6": [chain.uuids[1]], "7": [chain.uuids[1]]}

    assert "FAILED" not in site.corral("ps", "--all")
    assert "it is not known which pod has which device" not in chain.log.read_text()
    assert "other GPUs than chosen" not in (site.home / "server.log").read_text()
