"""What deploy/prometheus has is what Prometheus takes, and its alerts come when they should."""

import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from corral.core.control.metrics import device_metrics, scrape, work_metrics
from corral.features.alerts import alert_metrics
from corral.features.channels import build as channels
from corral.features.history import build as history
from tests.prometheus import needs_prometheus

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy" / "prometheus"
RULES = DEPLOY / "corral.rules.yml"
SCENES = Path(__file__).parent / "corral.rules.test.yml"
METRIC = re.compile(r"\b(?:corral|DCGM)_\w+")


def promtool(*words: str) -> str:
    done = subprocess.run(["promtool", *words], capture_output=True, text=True, cwd=DEPLOY, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


@needs_prometheus
def test_the_rules_and_the_example_are_taken_without_a_word() -> None:
    assert "SUCCESS" in promtool("check", "rules", "--lint-fatal", RULES.name)
    assert "SUCCESS" in promtool("check", "config", "--syntax-only", "prometheus.yml")


@needs_prometheus
def test_each_alert_comes_when_it_should_and_not_before() -> None:
    assert "SUCCESS" in promtool("test", "rules", str(SCENES))


def test_every_alert_is_tried_and_says_what_to_do() -> None:
    tried = {
        test["alertname"] for scene in yaml.safe_load(SCENES.read_text())["tests"] for test in scene["alert_rule_test"]
    }
    assert {alert["alert"] for alert in alerts()} == tried
    assert all({"summary", "description"} <= set(alert["annotations"]) for alert in alerts())
    assert {alert["labels"]["severity"] for alert in alerts()} == {"info", "warning", "critical"}


def test_every_metric_that_an_alert_names_is_one_that_the_server_writes_and_the_page_tells() -> None:
    writers = (device_metrics, scrape, work_metrics, alert_metrics, channels, history)
    written = "".join(Path(str(module.__file__)).read_text() for module in writers)
    page = (ROOT / "docs" / "metrics.md").read_text()
    names = {name for alert in alerts() for name in METRIC.findall(alert["expr"])}
    assert len(names) > 8
    assert [name for name in names if f'"{name}"' not in written] == []
    told = set(re.findall(r'"((?:corral|DCGM)_\w+)"', written))
    assert [name for name in sorted(told) if f"`{name}`" not in page] == []
