"""A real Prometheus scrapes a real server with the example's settings, and the queries of the alerts have answers."""

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.box import Box, described, until_there, uuid
from tests.prometheus import needs_prometheus

DEPLOY = Path(__file__).parent.parent.parent / "deploy" / "prometheus"
SICK = """
[[devices]]
mother_uuid = "GPU-sick"
model_name = "Mock \\"A100\\""
memory_size = "80G"
temperature_c = 91
ecc_errors = 2
xid = 79
throttle = ["hw_thermal"]

[[devices]]
mother_uuid = "GPU-lost"
model_name = "Mock A100"
memory_size = "80G"
lost = true
"""

Found = list[dict[str, str]]


class Prometheus:
    """One that scrapes the server of a box, every second."""

    def __init__(self, box: Box, root: Path) -> None:
        self.root = root
        url = re.findall(r"http://(\S+)", (box.home / "server.log").read_text())[-1]
        (root / "corral.token").write_text(box.json("token", "create", "--scope", "read", "--json")["token"])
        shutil.copy(DEPLOY / "corral.rules.yml", root)
        config = (DEPLOY / "prometheus.yml").read_text()
        for example, here in (("15s", "1s"), ("https", "http"), ("corral.example.org:7070", url)):
            assert example in config
            config = config.replace(example, here)
        (root / "prometheus.yml").write_text(config)
        self.log = (root / "log").open("wb")
        words = ("--web.listen-address=127.0.0.1:0", f"--storage.tsdb.path={root}/data")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={root}/prometheus.yml", *words], stderr=self.log, stdout=self.log
        )
        self.address: str = box.until(self._address)

    def _address(self) -> str | None:
        assert self.process.poll() is None, (self.root / "log").read_text()
        found = re.search(r'msg="Listening on" address=(\S+)', (self.root / "log").read_text())
        return found and found[1]

    def ask(self, path: str, **query: str) -> Any:
        with urllib.request.urlopen(f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(query)}") as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> Found:
        """The labels of what an expression gives now."""
        return [row["metric"] for row in self.ask("query", query=expression)["result"]]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)
        self.log.close()


@pytest.fixture
def scene(new_box: Callable[[str], Box], tmp_path: Path) -> Iterator[tuple[Box, Prometheus]]:
    box = new_box(described(1) + SICK)
    box.ok("up", "--detach", "--mock", str(box.mock), "--listen", "127.0.0.1:0")
    prometheus = Prometheus(box, tmp_path)
    yield box, prometheus
    prometheus.stop()


@needs_prometheus
def test_prometheus_reads_a_server_and_the_alerts_find_what_is_wrong_with_it(
    scene: tuple[Box, Prometheus], tmp_path: Path
) -> None:
    box, prometheus = scene
    gate = tmp_path / "gate"
    job = box.submit("--gpus", "1", "--", "sh", "-c", until_there(gate))
    running = f'corral_job_info{{job="{job}"}}'
    ((found,),) = box.until(lambda: (rows := prometheus.query(running)) and (rows,))
    assert (found["UUID"], found["queue"]) == (uuid(0), "default")
    assert [target["health"] for target in prometheus.ask("targets")["activeTargets"]] == ["up"]

    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    due = {rule["name"] for rule in rules if prometheus.query(rule["query"])}
    sick = {"CorralDeviceHot", "CorralDeviceMemoryErrors", "CorralDeviceThrottled", "CorralDeviceUnhealthy"}
    assert due == {*sick, "CorralDeviceUnreadable"}
    (hot,) = prometheus.query("DCGM_FI_DEV_GPU_TEMP > 85")
    assert (hot["UUID"], hot["modelName"], hot["gpu"]) == ("GPU-sick", 'Mock "A100"', "1")
    for name in {name for rule in rules for name in re.findall(r"\b(?:corral|DCGM)_\w+", rule["query"])}:
        assert prometheus.query(name) or name == "corral_starts_blocked", name

    (who,) = prometheus.query(f"DCGM_FI_DEV_GPU_UTIL * on (UUID) group_right () {running}")
    assert who["UUID"] == uuid(0)
    assert prometheus.query('corral_queue_wait_seconds_count{queue="default"} == 1')
    assert prometheus.query("corral_cycle_seconds_count > 0 and corral_cycle_seconds_sum > 0")
    # A scrape is counted when it was answered, so the next one tells of it.
    box.until(lambda: prometheus.query('corral_api_requests_total{route="/metrics",status="2xx"} > 0'))
    gate.touch()
    box.ended(job)
    box.until(lambda: not prometheus.query(running))
    box.until(lambda: prometheus.query('corral_jobs_ended_total{phase="SUCCEEDED"} == 1'))
