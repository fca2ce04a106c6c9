"""Agents on the nodes of a cluster: what one takes on its node, and what 1,000 of them cost their server.

`python -m bench kubernetes_agents`. The one is a real agent, whose driver library and kubelet are those of the tests,
with eight GPUs. The 1,000 are connections of one process that send what such an agent sends; what that process takes is
not counted. They come from addresses of loopback of their own, and their pods and tokens are of a real API server. It
needs KUBEBUILDER_ASSETS and gcc.
"""

import gzip
import http.client
import json
import os
import re
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.kubernetes_store import fill, node_name
from bench.server import RunningServer
from corral.clock import SystemClock
from corral.core.model.devices.device import DeviceProcess, DeviceSample
from corral.core.sharing.arrange import Arrangement
from corral.engines.kubernetes.agent.agent_report import REPORT_EVERY_S, GivenDevices
from corral.engines.kubernetes.agent.own_node import OwnNode
from corral.engines.kubernetes.agent.report_sender import PATH
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.resource import NAMESPACES, OWN_NAMESPACE
from corral.wire import to_plain
from tests.certificates import make_certificate
from tests.engines.kubernetes.agent.fake_kubelet import FakePodResources
from tests.engines.kubernetes.agent_reports.agents import make_account, make_agent_pod, token_of
from tests.engines.kubernetes.assets import find_program
from tests.engines.kubernetes.control_plane import Processes, reserved_port
from tests.vendors.nvidia.nvml_stub import LIBRARY, build_stub, stub_uuid

AGENTS = 1_000
DEVICES = 8
SETTLE_S = 15.0
MEASURED_S = 30.0
PATIENCE_S = 300.0
MOCK = Path(__file__).parents[1] / "src" / "corral" / "host" / "telemetry" / "data" / "mock-8gpu.toml"


def main(agents: int = AGENTS) -> None:
    if find_program("kube-apiserver") is None:
        print("KUBEBUILDER_ASSETS names no directory with kube-apiserver: not measured")
        return
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as name:
        directory = Path(name)
        processes = Processes(directory / "control-plane")
        try:
            plane = processes.start()
            cluster = plane.connect(directory)
            fill(plane, cluster, agents, 0)
            tokens = _tokens(cluster, agents)
            certificate, key = make_certificate(directory)
            kubeconfig = plane.kubeconfig(directory / "kubeconfig")
            with _server(directory, kubeconfig, certificate, key) as (server, port):
                _tell_one(directory, port, certificate, tokens[0])
                _tell_all(server, port, certificate, tokens)
            cluster.close()
        finally:
            processes.stop()


def _tokens(cluster: Cluster, agents: int) -> list[str]:
    """The tokens of agents' pods, one a node."""
    cluster.create(NAMESPACES, {"metadata": {"name": OWN_NAMESPACE}})
    make_account(cluster, OWN_NAMESPACE)

    def token(number: int) -> str:
        name = f"agent-{number}"
        return token_of(cluster, OWN_NAMESPACE, (name, make_agent_pod(cluster, OWN_NAMESPACE, name, node_name(number))))

    with ThreadPoolExecutor(8) as makers:
        return list(makers.map(token, range(agents)))


@contextmanager
def _server(directory: Path, kubeconfig: Path, certificate: Path, key: Path) -> Iterator[tuple[RunningServer, int]]:
    home = directory / "home"
    home.mkdir()
    reserved = reserved_port()
    port = reserved.getsockname()[1]
    reserved.close()
    read_fd, write_fd = os.pipe()
    command = [sys.executable, "-m", "corral.daemon", "--home", str(home), "--engine", "kubernetes"]
    command += ["--kubeconfig", str(kubeconfig), "--listen", f"127.0.0.1:{port}", "--ready-fd", str(write_fd)]
    command += ["--tls-cert", str(certificate), "--tls-key", str(key)]
    began_s = time.monotonic()
    with (directory / "server.log").open("w") as log:
        process = subprocess.Popen(command, pass_fds=[write_fd], stdout=log, stderr=log)
    os.close(write_fd)
    try:
        with os.fdopen(read_fd) as ready:
            said = ready.read().splitlines()[-1:]
        assert said == ["ready"], f"the server did not start: {(directory / 'server.log').read_text()}"
        yield RunningServer(home, process.pid, time.monotonic() - began_s), port
    finally:
        process.terminate()
        process.wait()


def _tell_one(directory: Path, port: int, certificate: Path, token: str) -> None:
    """A real agent on its own, with the processes that read the driver for it."""
    control, token_file = directory / "stub", directory / "token"
    control.write_text(f"devices {DEVICES}\n")
    token_file.write_text(token)
    env = {**os.environ, "LD_LIBRARY_PATH": str(build_stub(directory)), "NVML_STUB_CONTROL": str(control)}
    command = [sys.executable, "-m", "corral.engines.kubernetes.agent.program"]
    command += ["--server", f"https://127.0.0.1:{port}", "--ca-file", str(certificate), "--token-file", str(token_file)]
    command += ["--kubelet-dir", str(directory / "kubelet")]
    with (directory / "agent.log").open("wb") as log:
        agent = subprocess.Popen([*command, "--node", node_name(0)], env=env, stdout=log, stderr=log)
    kubelet = FakePodResources(directory / "kubelet" / "pod-resources" / "kubelet.sock")
    kubelet.socket.parent.mkdir(parents=True)
    kubelet.given = tuple(
        GivenDevices("team", f"train-{number}", "main", "nvidia.com/gpu", (stub_uuid(number),))
        for number in range(DEVICES)
    )
    kubelet.allocatable = {"nvidia.com/gpu": tuple(map(stub_uuid, range(DEVICES)))}
    kubelet.start()
    try:
        time.sleep(SETTLE_S)
        before_s = _cpu_s(agent.pid)
        time.sleep(MEASURED_S)
        busy_pct = 100 * (_cpu_s(agent.pid) - before_s) / MEASURED_S
        said = (directory / "agent.log").read_text()
        mapped = [Path(f"/proc/{pid}/maps").read_text() for pid in _family(agent.pid)]
        assert any(LIBRARY in one for one in mapped), "no process of the agent has loaded the driver library"
        assert "it is tried again" not in said, said
        print(f"an agent with {DEVICES} devices: {busy_pct:.2f} % of a core (goal below 0.5 %), "
              f"{_private_mib(agent.pid):.0f} MiB private with its reader (goal 100 MiB)")  # fmt: skip
    finally:
        kubelet.close()
        agent.terminate()
        agent.wait()


def _family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in _family(int(child)))]


def _cpu_s(pid: int) -> float:
    """The time of the processes with all their threads, also of those that have ended: each question has some."""
    stats = (Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split() for each in _family(pid))
    return sum(int(fields[11]) + int(fields[12]) for fields in stats) / os.sysconf("SC_CLK_TCK")


def _private_mib(pid: int) -> float:
    return sum(RunningServer(Path(), each, 0.0).private_mib() for each in _family(pid))


def _tell_all(server: RunningServer, port: int, certificate: Path, tokens: Sequence[str]) -> None:
    before_s = server.cpu_s()
    time.sleep(5.0)
    idle_pct = 100 * (server.cpu_s() - before_s) / 5.0
    context = get_context("spawn")
    taken = context.Value("l", 0)
    agents = context.Process(target=send_all, args=(port, str(certificate), tokens, taken), daemon=True)
    agents.start()
    try:
        deadline = time.monotonic() + PATIENCE_S
        while taken.value < 2 * len(tokens):
            assert agents.is_alive(), "the process of the agents has ended"
            assert time.monotonic() < deadline, f"only {taken.value} reports were taken"
            time.sleep(0.2)
        before_s, before = server.cpu_s(), taken.value
        time.sleep(MEASURED_S)
        busy_pct = 100 * (server.cpu_s() - before_s) / MEASURED_S
        a_second = (taken.value - before) / MEASURED_S
        print(f"{len(tokens):,} agents x {DEVICES} devices, {a_second:.0f} reports a second (due "
              f"{len(tokens) / REPORT_EVERY_S:.0f}): {busy_pct:.1f} % of a core (goal below 50 %), without them "
              f"{idle_pct:.1f} %; {server.private_mib():.0f} MiB private (goal 600 MiB)")  # fmt: skip
    finally:
        agents.kill()
        agents.join()


def send_all(port: int, certificate: str, tokens: Sequence[str], taken: Any) -> None:
    """Send the reports of all agents in turn, each every few seconds, until this process is killed."""
    node = OwnNode("bench", SystemClock(), mock=MOCK, kubelet_dir=Path("/nonexistent"), arrangement=Arrangement())
    node.start()
    plain = to_plain(node.report(), compact=True)
    node.close()
    text = json.dumps({**plain, "samples": [to_plain(_busy(one), compact=True) for one in node.report().samples]})
    context = ssl.create_default_context(cafile=certificate)
    threads = 4

    def send(first: int) -> None:
        mine = range(first, len(tokens), threads)
        lines = {number: _line(port, number, context) for number in mine}
        while True:
            began_s = time.monotonic()
            for place, number in enumerate(mine):
                time.sleep(max(0.0, began_s + REPORT_EVERY_S * place / len(mine) - time.monotonic()))
                body = _own(text, number)
                headers = {"Authorization": f"Bearer {tokens[number]}", "Content-Encoding": "gzip"}
                try:
                    lines[number].request("POST", PATH, gzip.compress(body, 1), headers)
                    answer = lines[number].getresponse()
                    said = answer.read()
                except (OSError, http.client.HTTPException):
                    lines[number].close()
                    lines[number] = _line(port, number, context)
                    continue
                if answer.status == http.HTTPStatus.NO_CONTENT:
                    with taken.get_lock():
                        taken.value += 1
                elif answer.status not in (http.HTTPStatus.SERVICE_UNAVAILABLE, http.HTTPStatus.UNAUTHORIZED):
                    print(answer.status, said[:300], file=sys.stderr)

    workers = [threading.Thread(target=send, args=(first,), daemon=True) for first in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def _line(port: int, number: int, context: ssl.SSLContext) -> http.client.HTTPSConnection:
    source = (f"127.1.{number // 250}.{number % 250 + 1}", 0)
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context, source_address=source)


def _busy(sample: DeviceSample) -> DeviceSample:
    """The sample with two processes, as of a pod with loaders."""
    cgroup = (
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod8c6c3e1f_2a3b_4c5d_9e8f_001122334455.slice/"
        f"cri-containerd-{64 * 'a'}.scope"
    )
    processes = tuple(
        DeviceProcess(1000 + number, 10_240, "alice", "python train.py", sample.taken_at, cgroup, 64 * "a")
        for number in range(2)
    )
    return DeviceSample(
        sample.uuid,
        sample.taken_at,
        97,
        70_000,
        11_920,
        81_920,
        61,
        390_000,
        processes,
        0,
        memory_bandwidth_pct=40,
        sm_clock_mhz=1410,
        mem_clock_mhz=1215,
        xid=0,
        throttle=0,
    )


_UUID = re.compile(r"GPU-c0ffee00-0000-")


def _own(text: str, number: int) -> bytes:
    """The report with the name of this agent's node and UUIDs of its own, sent now."""
    now = time.time()
    told = text.replace('"name": "bench"', json.dumps({"name": node_name(number)})[1:-1], 1)
    told = _UUID.sub(f"GPU-{number:08x}-0000-", told)
    told = re.sub(r'"sent_at": [0-9.]+', f'"sent_at": {now}', told)
    return re.sub(r'"taken_at": [0-9.]+', f'"taken_at": {now - 1}', told).encode()


if __name__ == "__main__":
    main()
