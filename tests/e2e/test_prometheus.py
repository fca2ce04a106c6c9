"""A real Prometheus scrapes a real server with the example's settings, and the queries of the alerts have answers."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.box import Box, described, until_there, uuid
from tests.e2e.prometheus_site import Prometheus
from tests.prometheus import needs_prometheus

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
