"""Pods that others make, bound by a server and by kube-scheduler: 200 nodes of 8 GPUs behind a real API server.

`python -m bench binding` makes pods of one GPU while nobody binds them, starts who does, and prints the rate from the
first binding to the last, in turn. It needs KUBEBUILDER_ASSETS.
"""

import http.client
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from corral.core.model.devices.device import DeviceSample
from corral.engines.kubernetes.agent.agent_report import REPORT_EVERY_S
from corral.engines.kubernetes.agent.report_sender import PATH
from corral.engines.kubernetes.cluster.client import Cluster, Selection
from corral.engines.kubernetes.cluster.object_watch import ObjectWatch
from corral.engines.kubernetes.cluster.pod_facts import PodFacts, read_pod
from corral.engines.kubernetes.cluster.resource import NAMESPACES, OWN_NAMESPACE, PODS
from corral.engines.kubernetes.cluster.watch_state import Change
from tests.engines.kubernetes.agent_reports.agents import body_of, make_account, make_agent_pod, report, token_of
from tests.engines.kubernetes.assets import find_program
from tests.engines.kubernetes.control_plane import ControlPlane, Processes
from tests.engines.kubernetes.manifests import pod
from tests.engines.kubernetes.nodes import make_node

NODES_IN_ALL, PODS_IN_ALL = 200, 500
GPUS = 8
SETTLE_S = 2.0
WITHIN_S = 300.0
NO_LIMIT = {"qps": 5000, "burst": 5000}


def main() -> None:
    if find_program("kube-scheduler") is None or find_program("kube-apiserver") is None:
        print("KUBEBUILDER_ASSETS names no directory with kube-apiserver and kube-scheduler: not measured")
        return
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        processes = Processes(directory / "control-plane")
        try:
            plane = processes.start()
            cluster = plane.connect(directory)
            _in_parallel([partial(make_node, cluster, f"n{number:03}") for number in range(NODES_IN_ALL)])
            lab = _Lab(processes, plane, cluster, directory)
            for number in (1, 2, 3):
                print(f"kube-scheduler with qps 5000: {lab.theirs(f'kube{number}', NO_LIMIT):,.0f} pods/s", flush=True)
                print(f"corral: {lab.ours(f'corral{number}'):,.0f} pods/s (goal: at least as many)", flush=True)
            print(f"kube-scheduler with its default limits: {lab.theirs('limited', {}):,.0f} pods/s", flush=True)
            agents = _Agents(cluster)
            for number in (1, 2, 3):
                counted = lab.ours_at_once(f"counted{number}", None)
                exact = lab.ours_at_once(f"exact{number}", agents)
                print(
                    f"corral with agents on all nodes: {exact:,.0f} pods/s, without: {counted:,.0f} pods/s, "
                    f"ratio {exact / counted:.2f} (goal: 0.90 at least)",
                    flush=True,
                )
            cluster.close()
        finally:
            processes.stop()


@dataclass
class _Lab:
    processes: Processes
    plane: ControlPlane
    cluster: Cluster
    directory: Path

    def theirs(self, name: str, limits: Mapping[str, int]) -> float:
        """The rate of a kube-scheduler with these limits on its requests."""
        kubeconfig = self.plane.kubeconfig(self.directory / "scheduler.kubeconfig")
        configuration = self.directory / f"{name}.yaml"
        content = {
            "apiVersion": "kubescheduler.config.k8s.io/v1beta1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig), **limits},
            "leaderElection": {"leaderElect": False},
            "profiles": [{"schedulerName": name}],
        }
        configuration.write_text(yaml.safe_dump(content))
        running: list[subprocess.Popen[bytes]] = []

        def begin() -> None:
            running.append(self.processes.start_scheduler(configuration))

        def end() -> None:
            running[0].terminate()
            running[0].wait()

        return _rate(self.cluster, name, begin, end)

    def ours(self, name: str) -> float:
        """The rate of a server."""
        home = self.directory / name
        home.mkdir()
        kubeconfig = self.plane.kubeconfig(self.directory / "corral.kubeconfig")
        settings = {"kubeconfig": str(kubeconfig), "scheduler_name": name}
        content = {"engine": "kubernetes", "max_running_jobs": 100_000, "kubernetes": settings}
        (home / "config.yaml").write_text(yaml.safe_dump(content))
        corral = str(Path(sys.executable).parent / "corral")
        env = {**os.environ, "CORRAL_HOME": str(home)}

        def run(*words: str) -> None:
            subprocess.run([corral, *words], env=env, check=True, stdout=subprocess.DEVNULL)

        return _rate(self.cluster, name, partial(run, "up", "--detach"), partial(run, "down"))

    def ours_at_once(self, name: str, agents: "_Agents | None") -> float:
        """The rate of a server that may bind one pod until it knows its nodes, and then all. With `agents` these report
        meanwhile.
        """
        home = self.directory / name
        home.mkdir()
        kubeconfig = self.plane.kubeconfig(self.directory / "corral.kubeconfig")
        # The pods of agents are there in both cases; without them no pod is one's.
        account = "default/nobody" if agents is None else agents.account
        named = {"kubeconfig": str(kubeconfig), "scheduler_name": name, "agent_account": account}
        content = {"engine": "kubernetes", "max_running_jobs": 1, "kubernetes": named}
        (home / "config.yaml").write_text(yaml.safe_dump(content))
        corral = str(Path(sys.executable).parent / "corral")
        env = {**os.environ, "CORRAL_HOME": str(home)}

        def run(*words: str) -> None:
            subprocess.run([corral, *words], env=env, check=True, stdout=subprocess.DEVNULL)

        def begin() -> None:
            run("up", "--detach")
            if agents is not None:
                agents.begin(home / "corral.sock")

        def let_all() -> None:
            (home / "config.yaml").write_text(yaml.safe_dump({**content, "max_running_jobs": 100_000}))
            run("config", "reload")

        def end() -> None:
            if agents is not None:
                agents.end()
            run("down")

        return _rate(self.cluster, name, begin, end, let_all=let_all)


class _Agents:
    """The agents of all nodes: a thread sends what each would send."""

    def __init__(self, cluster: Cluster) -> None:
        cluster.create(NAMESPACES, {"metadata": {"name": OWN_NAMESPACE}})
        self.account = make_account(cluster, OWN_NAMESPACE)
        self._nodes = [f"n{number:03}" for number in range(NODES_IN_ALL)]
        self._tokens: dict[str, str] = {}

        def token(node: str) -> None:
            uid = make_agent_pod(cluster, OWN_NAMESPACE, f"agent-{node}", node)
            self._tokens[node] = token_of(cluster, OWN_NAMESPACE, (f"agent-{node}", uid))

        _in_parallel([partial(token, node) for node in self._nodes])
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, server: Path) -> None:
        """Send the first report of each node, then further ones at their interval."""
        self._over.clear()
        for node in self._nodes:
            while self._send(server, node) != http.client.NO_CONTENT:
                time.sleep(0.1)
        time.sleep(SETTLE_S)
        self._thread = threading.Thread(target=self._go_on, args=(server,))
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _go_on(self, server: Path) -> None:
        while True:
            for node in self._nodes:
                if self._over.wait(REPORT_EVERY_S / NODES_IN_ALL):
                    return
                self._send(server, node)

    def _send(self, server: Path, node: str) -> int:
        now = time.time()
        uuids = [f"GPU-{node}-{index}" for index in range(GPUS)]
        samples = tuple(
            DeviceSample(
                uuid,
                now,
                utilization_pct=0,
                memory_used_mib=1,
                memory_free_mib=81919,
                memory_total_mib=81920,
                processes=(),
            )
            for uuid in uuids
        )
        line = http.client.HTTPConnection("localhost", timeout=WITHIN_S)
        line.sock = socket.socket(socket.AF_UNIX)
        line.sock.connect(str(server))
        body = body_of(report(node, *uuids, sent_at=now, samples=samples))
        line.request("POST", PATH, body, {"authorization": f"Bearer {self._tokens[node]}"})
        status = line.getresponse().status
        line.close()
        return status


def _rate(
    cluster: Cluster,
    scheduler: str,
    begin: Callable[[], None],
    end: Callable[[], None],
    *,
    let_all: Callable[[], None] | None = None,
) -> float:
    """Pods a second between the first binding and the last. With `let_all`, without the one that is bound before."""
    _in_parallel(
        [
            partial(cluster.create, PODS, pod(f"{scheduler}-{number}", "default", gpus=1, schedulerName=scheduler))
            for number in range(PODS_IN_ALL)
        ]
    )
    bound: dict[str, float] = {}
    done = threading.Event()

    def hear(changes: Sequence[Change[PodFacts]]) -> None:
        now_s = time.monotonic()
        for _, new in changes:
            if new is not None and new.node is not None:
                bound.setdefault(new.name, now_s)
        if len(bound) == PODS_IN_ALL:
            done.set()

    pods = ObjectWatch(cluster, PODS, Selection(fields=f"spec.schedulerName={scheduler}"))
    pods.cache(read_pod).subscribe(hear)
    pods.start()
    pods.wait_until_synced(WITHIN_S)
    begin()
    try:
        if let_all is not None:
            let_all()
        if not done.wait(WITHIN_S):
            raise SystemExit(f"{scheduler} has bound {len(bound)} of {PODS_IN_ALL} pods within {WITHIN_S:.0f} s")
    finally:
        end()
        pods.stop()
        _in_parallel(
            [partial(cluster.delete, PODS, f"{scheduler}-{n}", "default", grace_s=0) for n in range(PODS_IN_ALL)]
        )
    times = sorted(bound.values())[0 if let_all is None else 1 :]
    return (len(times) - 1) / max(1e-9, times[-1] - times[0])


def _in_parallel(acts: Sequence[Callable[[], object]]) -> None:
    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(act) for act in acts]:
            future.result()
