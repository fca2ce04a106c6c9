"""A real control plane for tests: etcd and kube-apiserver as processes of their own, on loopback.

Users, with what they may do: ADMIN everything, CORRAL what the documentation says, DEPLOYER what one test binds to it,
NOBODY nothing. Pods need no service account, and nothing runs unless a test starts kube-scheduler or
kube-controller-manager, or plays the kubelet.
"""

import ctypes
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from corral.engines.kubernetes.cluster.client import Cluster
from tests.engines.kubernetes.assets import find_program

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1

START_S = 120.0
STOP_S = 20.0
_FEW_COLLECTIONS = {"GOGC": "400"}
"""Go collects garbage when its heap has grown by so many percent: a fifth of what an API server does is that."""

ADMIN, CORRAL, DEPLOYER, NOBODY = "admin", "corral", "deployer", "nobody"
_GROUPS = {ADMIN: "system:masters", CORRAL: "corral", DEPLOYER: "deployers", NOBODY: "nobodies"}


@dataclass(frozen=True)
class ControlPlane:
    """A control plane that runs. Its users' tokens are their names.

    Attributes:
        url: of its API server.
        authority: the file with the certificate to trust.
        etcd_url: of its store.
        directory: where its files and logs are.
    """

    url: str
    authority: str
    etcd_url: str
    directory: str

    def kubeconfig(self, path: Path, user: str = ADMIN, *, url: str | None = None, namespace: str = "default") -> Path:
        """Write a kubeconfig for a user; `url` is that of a proxy before it, which is spoken to without TLS."""
        cluster = {"server": url} if url else {"server": self.url, "certificate-authority": self.authority}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": user}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user, "namespace": namespace}}],
            "current-context": "test",
        }
        path.write_text(yaml.safe_dump(content))
        return path

    def connect(self, directory: Path, user: str = ADMIN, *, url: str | None = None) -> Cluster:
        """A client of that user. `directory` is where its kubeconfig is written."""
        return Cluster.connect(str(self.kubeconfig(directory / f"{user}.kubeconfig", user, url=url)))


class Processes:
    """The processes of one control plane, in a directory of their own; `options` are more of its API server's."""

    def __init__(self, directory: Path, options: Sequence[str] = ()) -> None:
        self.directory = directory
        self._options = tuple(options)
        directory.mkdir(parents=True, exist_ok=True)
        self._etcd: subprocess.Popen[bytes] | None = None
        self._api_server: subprocess.Popen[bytes] | None = None
        self._others: list[subprocess.Popen[bytes]] = []
        self._held: tuple[socket.socket, ...] = ()
        self._ports: tuple[int, ...] = ()

    def start(self) -> ControlPlane:
        """Returns when the API server answers. Raises where it does not, with the end of its log."""
        self._held = tuple(reserved_port() for _ in range(3))
        self._ports = tuple(held.getsockname()[1] for held in self._held)
        self._write_users()
        self.start_etcd()
        self.start_api_server()
        return self.plane

    @property
    def plane(self) -> ControlPlane:
        etcd, _, api = self._ports
        return ControlPlane(
            f"https://127.0.0.1:{api}",
            str(self.directory / "certificates" / "apiserver.crt"),
            f"http://127.0.0.1:{etcd}",
            str(self.directory),
        )

    def start_etcd(self) -> None:
        client, peer, _ = self._ports
        urls = f"http://127.0.0.1:{client}"
        self._etcd = self._run(
            "etcd",
            [
                f"--data-dir={self.store}",
                f"--listen-client-urls={urls}",
                f"--advertise-client-urls={urls}",
                f"--listen-peer-urls=http://127.0.0.1:{peer}",
                "--unsafe-no-fsync",
                f"--quota-backend-bytes={4 << 30}",
                "--log-level=error",
            ],
        )

    def start_api_server(self) -> None:
        key = self.directory / "service-accounts.key"
        self._api_server = self._run(
            "kube-apiserver",
            [
                f"--etcd-servers={self.plane.etcd_url}",
                f"--cert-dir={self.directory / 'certificates'}",
                f"--secure-port={self._ports[2]}",
                "--bind-address=127.0.0.1",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={key}",
                f"--service-account-signing-key-file={key}",
                f"--client-ca-file={self.directory / 'clients.crt'}",
                f"--kubelet-client-certificate={self.directory / 'clients.crt'}",
                f"--kubelet-client-key={self.directory / 'clients.key'}",
                f"--token-auth-file={self.directory / 'tokens.csv'}",
                "--authorization-mode=RBAC",
                "--disable-admission-plugins=ServiceAccount",
                "--service-cluster-ip-range=10.0.0.0/16",
                "--allow-privileged",
                "--profiling=false",
                *self._options,
            ],
        )
        self._wait_until_ready()

    def kill_api_server(self) -> None:
        """As by the kernel: it says goodbye to nobody. `start_api_server` starts the next one at the same address."""
        assert self._api_server is not None
        self._api_server.kill()
        self._api_server.wait()

    def stop_store(self) -> None:
        """etcd alone; the API server stays, and fails until `start_etcd`."""
        assert self._etcd is not None
        self._etcd.terminate()
        self._etcd.wait(STOP_S)

    @property
    def store(self) -> Path:
        """The directory of etcd, which may be copied while it is stopped."""
        return self.directory / "etcd"

    def start_scheduler(self, configuration: Path) -> subprocess.Popen[bytes]:
        """kube-scheduler with a KubeSchedulerConfiguration, which names a kubeconfig."""
        return self._other("kube-scheduler", [f"--config={configuration}", "--secure-port=0", "--port=0"])

    def start_controller_manager(self, kubeconfig: Path) -> subprocess.Popen[bytes]:
        """The controllers of Jobs, Deployments, namespaces and whatever else."""
        return self._other("kube-controller-manager", controller_manager_arguments(kubeconfig))

    def stop(self) -> None:
        """Kill all processes, whose store nobody needs: an API server that is asked to end waits for its watches."""
        processes = [one for one in (*self._others, self._api_server, self._etcd) if one is not None]
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
        self._others.clear()
        for held in self._held:
            held.close()

    def _other(self, program: str, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        process = self._run(program, arguments)
        self._others.append(process)
        return process

    def _run(self, program: str, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        return run_program(program, arguments, self.directory / f"{program}.log")

    def _write_users(self) -> None:
        lines = [f'{user},{user},{number},"{group}"' for number, (user, group) in enumerate(_GROUPS.items())]
        (self.directory / "tokens.csv").write_text("\n".join(lines))
        key = self.directory / "service-accounts.key"
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
        # One certificate signs itself, is trusted, and is the administrator's.
        pair = ["-keyout", str(self.directory / "clients.key"), "-out", str(self.directory / "clients.crt")]
        subject = ["-subj", f"/O={_GROUPS[ADMIN]}/CN={ADMIN}", "-addext", "extendedKeyUsage=clientAuth"]
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject, *pair]
        subprocess.run(command, check=True, capture_output=True)

    def _wait_until_ready(self) -> None:
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            assert self._api_server is not None
            if self._api_server.poll() is not None:
                break
            if self._ready():
                return
            time.sleep(0.1)
        log = (self.directory / "kube-apiserver.log").read_text()[-2000:]
        raise RuntimeError(f"kube-apiserver is not ready after {START_S:.0f} s:\n{log}")

    def _ready(self) -> bool:
        # It makes this namespace in passing, after it has called itself ready.
        return self._answers("/readyz") and self._answers("/api/v1/namespaces/default")

    def _answers(self, path: str) -> bool:
        try:
            context = ssl.create_default_context(cafile=self.plane.authority)
            connection = http.client.HTTPSConnection("127.0.0.1", self._ports[2], timeout=5, context=context)
            with closing(connection):
                connection.request("GET", path, headers={"Authorization": f"Bearer {ADMIN}"})
                return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False


def run_program(program: str, arguments: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Start one of the assets. It ends with the process that started it."""
    path = find_program(program)
    assert path is not None, f"{program} is not among the assets"
    with log.open("ab") as file:
        return subprocess.Popen(
            [str(path), *arguments],
            stdout=file,
            stderr=file,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **_FEW_COLLECTIONS},
            preexec_fn=end_with_parent,  # noqa: PLW1509 - it calls the kernel and takes no lock
        )


CONTROLLERS = "job,deployment,replicaset,statefulset,daemonset,garbagecollector,namespace,endpoint,podgc,disruption"


def controller_manager_arguments(kubeconfig: Path, controllers: str = CONTROLLERS) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
        "--port=0",
        f"--controllers={controllers}",
    ]


def save(plane: ControlPlane, path: Path) -> None:
    """Written whole or not at all."""
    half = path.with_suffix(".half")
    half.write_text(json.dumps(asdict(plane)))
    half.rename(path)


def load(path: Path) -> ControlPlane | None:
    try:
        return ControlPlane(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None


def reserved_port(address: str = "127.0.0.1") -> socket.socket:
    """A socket that keeps a port which the kernel chose, for a process that is started later, and again and again.

    It does not listen. So who says SO_REUSEADDR, as Go does, may listen there; but nobody's connection, not even one to
    that port while nothing listens there, is given it as its own.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind((address, 0))
    return held


def end_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
