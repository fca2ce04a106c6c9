"""Readings come from a Prometheus that scrapes dcgm-exporter, and from the exporters themselves."""

import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.inventory.readings.cluster_readings import ReadingsFound, ReadingSources, read_gpus
from tests.engines.kubernetes.control_plane import NOBODY, ControlPlane
from tests.prometheus import needs_prometheus

NAMES = {"node-1": "node-1", "host-1": "node-1", "node-2": "node-2", "host-2": "node-2"}
EXPORTED = """\
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",Hostname="host-1"} 40
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",Hostname="host-1"} 250
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-a",Hostname="host-1"} 750
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-x",Hostname="elsewhere"} 3
"""


@contextmanager
def serving(answer: Callable[[str], tuple[int, str]]) -> Iterator[str]:
    """An HTTP server on loopback that answers GET by path; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, text = answer(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def client_of(url: str, directory: Path) -> Cluster:
    kubeconfig = ControlPlane(url, "", "", "").kubeconfig(directory / "config", url=url)
    return Cluster.connect(str(kubeconfig))


NO_PODS = json.dumps({"items": [], "metadata": {}})


@contextmanager
def prometheus(directory: Path, target: str, **labels: str) -> Iterator[str]:
    """A real one that scrapes a target each second, and gives its series these labels; its address."""
    scraped = {"targets": [target], "labels": labels}
    settings = {"scrape_configs": [{"job_name": "dcgm", "scrape_interval": "1s", "static_configs": [scraped]}]}
    (directory / "prometheus.yml").write_text(yaml.safe_dump(settings))
    with (directory / "log").open("wb") as log:
        # Some distributions keep the store in one place of the machine by default.
        words = ["prometheus", "--config.file=prometheus.yml", "--web.listen-address=127.0.0.1:0"]
        words += [f"--storage.tsdb.path={directory / 'data'}"]
        process = subprocess.Popen(words, stdout=log, stderr=log, cwd=directory)
    try:
        until = time.monotonic() + 60
        while not (found := re.search(r'msg="Listening on" address=(\S+)', (directory / "log").read_text())):
            assert process.poll() is None, (directory / "log").read_text()
            assert time.monotonic() < until
            time.sleep(0.05)
        yield f"http://{found[1]}"
    finally:
        process.terminate()
        process.wait(60)


@needs_prometheus
def test_a_real_prometheus_tells_of_the_nodes_that_it_scrapes(tmp_path: Path) -> None:
    with (
        serving(lambda path: (200, EXPORTED) if path == "/metrics" else (200, NO_PODS)) as url,
        prometheus(tmp_path, url.removeprefix("http://")) as told,
    ):
        until = time.monotonic() + 60
        # Fields are asked for one after the other: its first scrape may come between two of them.
        while not is_whole(found := read_gpus(client_of(url, tmp_path), NAMES, ReadingSources(told))):
            assert time.monotonic() < until, found
            time.sleep(0.1)
    assert (list(found.by_node), found.remarks) == (["node-1"], ())


@needs_prometheus
def test_a_real_prometheus_tells_of_the_use_over_time(tmp_path: Path) -> None:
    used = iter(range(1_000))

    def answer(path: str) -> tuple[int, str]:
        """An exporter whose GPU is used in turn to 0 and to 40 %, by one pod after the other."""
        if path != "/metrics":
            return 200, NO_PODS
        turn = next(used)
        text = EXPORTED.replace("} 40", f"}} {40 * (turn % 2)}")
        return 200, text.replace('"host-1"', f'"host-1",namespace="team",pod="p{turn}"')

    with serving(answer) as url, prometheus(tmp_path, url.removeprefix("http://")) as told:
        sources = ReadingSources(told, window_s=3600)
        until = time.monotonic() + 60
        while not (gpus := read_gpus(client_of(url, tmp_path), NAMES, sources).by_node.get("node-1")) or not (
            0 < (gpus[0].utilization_pct or 0) < 40
        ):
            assert time.monotonic() < until, gpus
            time.sleep(0.1)
    assert (gpus[0].memory_used_pct, gpus[0].pod) == (25, None)


def test_without_a_prometheus_the_use_now_counts_and_a_remark_says_so(tmp_path: Path) -> None:
    with serving(lambda _: (200, NO_PODS)) as server:
        found = read_gpus(client_of(server, tmp_path), NAMES, ReadingSources(window_s=3600))
    assert "only a Prometheus knows the use of GPUs over time" in found.remarks[0]


def is_whole(found: ReadingsFound) -> bool:
    gpus = [gpu for gpus in found.by_node.values() for gpu in gpus]
    return [(gpu.uuid, gpu.utilization_pct, gpu.memory_used_pct) for gpu in gpus] == [("GPU-a", 40, 25)]


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "prometheus:9090", "file:///etc/passwd"])
def test_a_prometheus_that_does_not_answer_is_a_remark(tmp_path: Path, url: str) -> None:
    with serving(lambda _: (200, NO_PODS)) as server:
        found = read_gpus(client_of(server, tmp_path), NAMES, ReadingSources(url))
    assert found.by_node == {}
    assert url in found.remarks[0]


def test_exporters_are_asked_through_the_api_server(tmp_path: Path) -> None:
    """The API server is played here: a real one sends no request to loopback, where the exporter of a test is."""
    pods = [exporter("e1", "node-1"), exporter("e2", "node-2"), exporter("e3", "node-3"), {"metadata": {"name": "e4"}}]
    answers: Mapping[str, tuple[int, str]] = {
        "/api/v1/namespaces/gpu-operator/pods/e1%3A9400/proxy/metrics": (200, EXPORTED),
        "/api/v1/namespaces/gpu-operator/pods/e2%3A9400/proxy/metrics": (503, "no endpoints available"),
    }

    def answer(path: str) -> tuple[int, str]:
        if path.startswith("/api/v1/pods?"):
            return 200, json.dumps({"items": pods if "nvidia-dcgm-exporter" in path else [], "metadata": {}})
        return answers.get(path, (404, "{}"))

    with serving(answer) as url:
        found = read_gpus(client_of(url, tmp_path), NAMES, timeout_s=60)
    (reading,) = found.by_node["node-1"][:1]
    assert (reading.index, reading.memory_used_mib) == (0, 250)
    assert "node-2" not in found.by_node


def exporter(name: str, node: str) -> dict[str, object]:
    metadata = {"name": name, "namespace": "gpu-operator"}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": "Running"}}


def test_without_the_right_the_exporters_are_not_read_and_a_remark_says_so(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    nobody = control_plane.connect(tmp_path, NOBODY)
    found = read_gpus(nobody, NAMES)
    nobody.close()
    assert found.by_node == {}
    assert "dcgm-exporters are not read: the user nobody may not list pods" in found.remarks[0]
