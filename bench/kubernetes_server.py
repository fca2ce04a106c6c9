"""A whole server over a large cluster: a real API server with 5,000 nodes and 40,000 pods.

`python -m bench kubernetes_server` prints how long it takes until the server answers and until it can use every node,
its memory and threads, and what an event of a pod costs it. It needs KUBEBUILDER_ASSETS.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.kubernetes_store import fill, node_name
from bench.server import RunningServer
from corral.client import Client
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.resource import PODS
from tests.engines.kubernetes.assets import find_program
from tests.engines.kubernetes.control_plane import Processes
from tests.engines.kubernetes.manifests import pod

NODES_IN_ALL, PODS_IN_ALL = 5_000, 40_000
EVENTS = 2_000
PATIENCE_S = 300.0
IDLE_S = 20.0


def main(nodes: int = NODES_IN_ALL, pods: int = PODS_IN_ALL) -> None:
    if find_program("kube-apiserver") is None:
        print("KUBEBUILDER_ASSETS names no directory with kube-apiserver: not measured")
        return
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as name:
        processes = Processes(Path(name) / "control-plane")
        try:
            plane = processes.start()
            cluster = plane.connect(Path(name))
            fill(plane, cluster, nodes, pods)
            with _server(Path(name), plane.kubeconfig(Path(name) / "kubeconfig")) as server:
                _tell_start(server, nodes, pods)
                _tell_events(server, cluster)
            cluster.close()
        finally:
            processes.stop()


@contextmanager
def _server(directory: Path, kubeconfig: Path) -> Iterator[RunningServer]:
    home = directory / "home"
    home.mkdir()
    read_fd, write_fd = os.pipe()
    command = [sys.executable, "-m", "corral.daemon", "--home", str(home), "--engine", "kubernetes"]
    command += ["--kubeconfig", str(kubeconfig), "--ready-fd", str(write_fd)]
    began_s = time.monotonic()
    with (directory / "server.log").open("w") as log:
        process = subprocess.Popen(command, pass_fds=[write_fd], stdout=log, stderr=log)
    os.close(write_fd)
    try:
        with os.fdopen(read_fd) as ready:
            said = ready.readline().strip()
        assert said == "ready", f"the server did not start: {said}"
        yield RunningServer(home, process.pid, time.monotonic() - began_s)
    finally:
        process.terminate()
        process.wait()


def _tell_start(server: RunningServer, nodes: int, pods: int) -> None:
    began_s = time.monotonic()
    with Client(server.home) as client:
        while (usable := sum(node.state == "ready" for node in client.nodes.list())) < nodes:
            assert time.monotonic() - began_s < PATIENCE_S, f"only {usable} nodes can be used"
            time.sleep(0.1)
    all_s = server.ready_s + time.monotonic() - began_s
    threads = len(list(Path(f"/proc/{server.pid}/task").iterdir()))
    print(
        f"{nodes:,} nodes and {pods:,} pods: the server answers after {server.ready_s:.1f} s and uses all nodes after "
        f"{all_s:.1f} s (goal 15 s); {server.private_mib():.0f} MiB private (goal 400 MiB), {threads} threads, "
        f"{server.cpu_s():.1f} s of CPU"
    )


def _tell_events(server: RunningServer, cluster: Cluster) -> None:
    time.sleep(5.0)
    before_s, began_s = server.cpu_s(), time.monotonic()
    time.sleep(IDLE_S)
    idle = (server.cpu_s() - before_s) / (time.monotonic() - began_s)
    before_s, began_s = server.cpu_s(), time.monotonic()
    for number in range(EVENTS):
        cluster.create(PODS, pod(f"event-{number}", "default", node=node_name(number)))
    told_s = time.monotonic() - began_s
    time.sleep(2.0)
    spent_s = server.cpu_s() - before_s - idle * (time.monotonic() - began_s)
    print(
        f"idle: {100 * idle:.1f} % of a core; a pod that comes costs {1000 * spent_s / EVENTS:.2f} ms of CPU in all of "
        f"the server (goal 1 ms); {EVENTS / told_s:.0f} came a second"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
