"""A real kubelet with a real dockerd, for tests: one node of a real API server whose pods run in containers.

Both run in namespaces of their own (`kubelet_host/host.sh`), and end with the test, however that ends. No registry is
asked: the image is made of this host's own shell.
"""

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

from corral.core.model.errors import NotFound
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.resource import NODES
from tests.docker.cgroups import cgroup_name, remove_cgroups
from tests.docker.image import write_image
from tests.engines.kubernetes.assets import find_program
from tests.engines.kubernetes.control_plane import ControlPlane, end_with_parent, reserved_port

IMAGE = "test/train:1"
START_S = 60.0
STOP_S = 20.0

_HOST = Path(__file__).parent / "kubelet_host"
_CGROUPS = Path("/sys/fs/cgroup")
_PROGRAMS = ("dockerd", "docker", "containerd", "runc", "unshare", "nsenter", "ip", "mount", "sed")
_NETWORK = '{"cniVersion": "0.4.0", "name": "test", "plugins": [{"type": "test"}]}'


def why_no_kubelet() -> str | None:
    """What this machine lacks to run a kubelet with Docker; None where it lacks nothing."""
    if os.geteuid() != 0:
        return "only root can run dockerd and a kubelet"
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if find_program("kubelet") is None:
        missing.append("kubelet in KUBEBUILDER_ASSETS")
    if missing:
        return f"no {', no '.join(missing)}"
    if not (_CGROUPS / "memory").is_dir():
        return "no cgroups of version 1, the only one with which this kubelet was tried"
    tried = subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/run"], capture_output=True
    )
    if tried.returncode != 0:
        return f"no namespaces of its own may be made here ({tried.stderr.decode(errors='replace').strip()})"
    return None


def _telling(log: str) -> str:
    """What is worth reading of a log: why the program gave up, before its stacks, else the end."""
    fatal = re.search(r"^(F\d{4} .*|panic: .*)$", log, re.MULTILINE)
    return log[-2000:] if fatal is None else fatal[0]


class RealKubelet:
    """One node, from `start` to `close`.

    Attributes:
        name: of the node: an address of this host's loopback, for a kubelet tells the API server such a name as its
            address.
        directory: has all that is the node's; agents find what they need in the same places as below /var/lib/kubelet.
        plugins, pod_resources: where device plugins meet it, and where it says what it gave.
    """

    def __init__(self, plane: ControlPlane, cluster: Cluster, directory: Path) -> None:
        self.name = f"127.{random.randint(1, 254)}.{random.randint(0, 255)}.{random.randint(1, 254)}"
        self._plane = plane
        self._cluster = cluster
        self.directory = directory
        self.plugins = directory / "device-plugins"
        self.pod_resources = directory / "pod-resources" / "kubelet.sock"
        self._cgroup = cgroup_name()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, gpus: int = 0) -> None:
        """Returns when the node is ready. Raises where it does not become so, with the end of the logs."""
        self._write_files()
        with reserved_port(self.name) as held, (self.directory / "host.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", str(_HOST / "host.sh")),
                    *(str(self.directory), self.name, str(held.getsockname()[1]), f"/{self._cgroup}"),
                ],
                env={**os.environ, "KUBEBUILDER_ASSETS": str(find_program("kubelet")).removesuffix("/kubelet")},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - it calls the kernel and takes no lock
            )
            self._wait_until_ready()
        # A controller would take the taint away that each new node has. The devices are advertised as its users do it.
        self._cluster.patch(NODES, self.name, {"spec": {"taints": None}})
        if gpus:
            amounts = {"capacity": {"nvidia.com/gpu": str(gpus)}, "allocatable": {"nvidia.com/gpu": str(gpus)}}
            self._cluster.patch(NODES, self.name, {"status": amounts}, subresource="status")

    def restart(self) -> None:
        """End the kubelet alone, as by a crash. It is started again, and the containers run on."""
        assert self._process is not None
        (self.directory / "restart").touch()
        unshared = f"/proc/{self._process.pid}/task/{self._process.pid}/children"
        inside = Path(unshared).read_text().strip()
        pid = (self.directory / "kubelet.pid").read_text().strip()
        subprocess.run(["nsenter", "--target", inside, "--pid", "kill", "-KILL", pid], check=True)

    def registrations(self, resource: str) -> int:
        """How often a device plugin has registered for a resource."""
        log = (self.directory / "kubelet.log").read_text(errors="replace")
        return log.count(f'Got registration request from device plugin with resource name "{resource}"')

    def close(self) -> None:
        """End the node as a host does that loses its power."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(STOP_S)
        with contextlib.suppress(NotFound):
            self._cluster.delete(NODES, self.name)
        remove_cgroups(self._cgroup)

    def _write_files(self) -> None:
        self.directory.mkdir()
        self._plane.kubeconfig(self.directory / "kubelet.kubeconfig")
        shutil.copy(Path(self._plane.directory) / "clients.crt", self.directory)
        (self.directory / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        for name in ("device-plugins", "pod-resources", "networks", "cni"):
            (self.directory / name).mkdir()
        (self.directory / "networks" / "test.conflist").write_text(_NETWORK)
        for plugin in ("test", "loopback"):
            (self.directory / "cni" / plugin).symlink_to(_HOST / "cni.sh")
        write_image(self.directory / "image.tar")

    def _wait_until_ready(self) -> None:
        until = time.monotonic() + START_S
        while not self._ready():
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() >= until:
                logs = [self.directory / f"{name}.log" for name in ("host", "dockerd", "kubelet")]
                said = "\n".join(f"{log.name}:\n{_telling(log.read_text())}" for log in logs if log.exists())
                raise RuntimeError(f"the kubelet does not become ready:\n{said}")
            time.sleep(0.1)

    def _ready(self) -> bool:
        try:
            conditions = self._cluster.get(NODES, self.name)["status"]["conditions"]
        except NotFound:
            return False
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
