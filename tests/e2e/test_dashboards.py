"""Every query of every panel has an answer from a real Prometheus that reads a real server."""

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.box import Box, described, until_there
from tests.e2e.prometheus_site import DEPLOY, Prometheus
from tests.prometheus import needs_prometheus

SICK = """
[[devices]]
mother_uuid = "GPU-sick"
model_name = "Mock A100"
memory_size = "80G"
temperature_c = 91
ecc_errors = 2
xid = 79
throttle = ["hw_thermal"]
"""

EMPTY_WHEN_WELL = {
    "ALERTS": "no alert fires",
    "DCGM_FI_DEV_XID_ERRORS": "no device has had an Xid error",
    "corral_alerts": "no alert of the server's own fires",
    "corral_device_throttled": "nothing throttles a device",
    "sum by (channel, result) (rate(corral_alert_deliveries_total": "there is nothing to tell a channel",
}
"""How queries begin that give nothing where all is well, and why."""

CHOSEN = {"instance": ".*", "hostname": ".*", "Hostname": ".*", "gpu": ".*", "queue": ".*", "__rate_interval": "15s"}
"""What is chosen at the head of a dashboard, and what Grafana puts in itself."""

UPSTREAM = (
    'DCGM_FI_DEV_GPU_TEMP{instance=~"$instance", gpu=~"$gpu"}',
    'avg(DCGM_FI_DEV_GPU_TEMP{instance=~"$instance", gpu=~"$gpu"})',
    'DCGM_FI_DEV_POWER_USAGE{instance=~"$instance", gpu=~"$gpu"}',
    'sum(DCGM_FI_DEV_POWER_USAGE{instance=~"$instance", gpu=~"$gpu"})',
    'DCGM_FI_DEV_SM_CLOCK{instance=~"$instance", gpu=~"$gpu"} * 1000000',
    'DCGM_FI_DEV_GPU_UTIL{instance=~"$instance", gpu=~"$gpu"}',
    'DCGM_FI_DEV_FB_USED{instance=~"$instance", gpu=~"$gpu"}',
)
"""What Grafana's dashboard 12239 for dcgm-exporter asks, but for the tensor cores, which only DCGM can read."""

UPSTREAM_BY_HOST = (
    'max(DCGM_FI_DEV_GPU_TEMP{Hostname=~"$Hostname", gpu=~"$gpu"}) by (Hostname, gpu, uuid)',
    'avg(DCGM_FI_DEV_GPU_TEMP{Hostname=~"$Hostname", gpu=~"$gpu"})',
    'max(DCGM_FI_DEV_POWER_USAGE{Hostname=~"$Hostname", gpu=~"$gpu"}) by (Hostname, gpu, uuid)',
    'sum(max(DCGM_FI_DEV_POWER_USAGE{Hostname=~"$Hostname", gpu=~"$gpu"}) by (gpu))',
    'max(DCGM_FI_DEV_SM_CLOCK{Hostname=~"$Hostname", gpu=~"$gpu"} * 1000000) by (Hostname, UUID, gpu)',
    'max(DCGM_FI_DEV_FB_USED{Hostname=~"$Hostname", gpu=~"$gpu"}) by (Hostname, gpu, GPU_I_ID, GPU_I_PROFILE)',
)
"""What the form of it in dcgm-exporter's repository asks, which knows a node as `Hostname`; without DCGM_FI_PROF_*."""


def panel_queries() -> list[str]:
    files = sorted((DEPLOY / "grafana").glob("*.json"))
    panels = [panel for file in files for panel in json.loads(file.read_text())["panels"]]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


def filled(expression: str) -> str:
    return re.sub(r"\$(\w+)", lambda name: CHOSEN[name[1]], expression)


def empty(prometheus: Prometheus, expressions: list[str]) -> list[str]:
    """Those that give no number."""
    return [text for text in expressions if not any(not math.isnan(value) for value in prometheus.values(filled(text)))]


def may_be_empty(expression: str) -> bool:
    return any(expression.startswith(name) for name in EMPTY_WHEN_WELL)


@pytest.fixture
def make_site(new_box: Callable[[str], Box], tmp_path: Path) -> Iterator[Callable[[str], tuple[Box, Prometheus]]]:
    made: list[Prometheus] = []

    def make(settings: str) -> tuple[Box, Prometheus]:
        box = new_box(described(2, extra="ecc_errors = 0"))
        (box.home / "config.yaml").write_text(settings)
        box.ok("up", "--detach", "--mock", str(box.mock), "--listen", "127.0.0.1:0")
        made.append(Prometheus(box, tmp_path))
        return box, made[0]

    yield make
    for prometheus in made:
        prometheus.stop()


@needs_prometheus
def test_every_panel_shows_something_and_what_is_empty_when_all_is_well_is_not_when_something_is_wrong(
    make_site: Callable[[str], tuple[Box, Prometheus]], tmp_path: Path
) -> None:
    box, prometheus = make_site("channels:\n  ops: json://127.0.0.1:9\n")
    gate = tmp_path / "gate"
    box.submit("--gpus", "1", "--", "sh", "-c", until_there(gate))
    queries = panel_queries()
    assert len(queries) > 50
    # Rates need two readings of a counter, and quantiles of waits a job that started between them.
    box.until(lambda: prometheus.values('corral_jobs{phase="RUNNING"}') == [1])
    for ends in ("true", "false"):
        box.ended(box.submit("--gpus", "1", "--", ends))
    box.submit("--gpus", "2", "--", "true")
    left = box.until(lambda: all(map(may_be_empty, found := empty(prometheus, queries))) and (found,))
    assert left == ([text for text in queries if may_be_empty(text)],)
    assert empty(prometheus, list(UPSTREAM)) == []

    box.describe(described(2, extra="ecc_errors = 0") + SICK)
    box.until(lambda: not empty(prometheus, queries))
    gate.touch()


@needs_prometheus
def test_dashboards_that_know_a_node_as_hostname_with_a_capital_have_answers_by_a_setting(
    make_site: Callable[[str], tuple[Box, Prometheus]],
) -> None:
    box, prometheus = make_site("metrics_hostname_label: Hostname\n")
    box.until(lambda: not empty(prometheus, list(UPSTREAM_BY_HOST)))
    assert empty(prometheus, list(UPSTREAM)) == []
