"""A GPU that gets too hot becomes a message, by the rules and the settings that are there to copy."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.box import Box, described, uuid
from tests.e2e.prometheus_site import EXAMPLES, Alertmanager, Prometheus
from tests.features.channels.receivers import Receiver, receiving
from tests.prometheus import needs_alertmanager

SOON = {"for: 1m\n        labels: {severity: warning}": "for: 1s\n        labels: {severity: warning}"}


@pytest.fixture
def webhook() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def told(webhook: Receiver, status: str) -> dict[str, dict[str, Any]]:
    """What was told to be `firing` or `resolved`, by name."""
    alerts = [alert for body in tuple(webhook.got) for alert in body["alerts"]]
    return {alert["labels"]["alertname"]: alert for alert in alerts if alert["status"] == status}


@pytest.fixture
def box(new_box: Callable[[str], Box], tmp_path: Path, webhook: Receiver) -> Iterator[Box]:
    box = new_box(described(1, extra="temperature_c = 60"))
    box.ok("up", "--detach", "--mock", str(box.mock), "--listen", "127.0.0.1:0")
    for name in ("alertmanager", "prometheus"):
        (tmp_path / name).mkdir()
    alertmanager = Alertmanager(box, tmp_path / "alertmanager", f"http://127.0.0.1:{webhook.port}/alerts")
    prometheus = Prometheus(box, tmp_path / "prometheus", alertmanager=alertmanager.address, rules=SOON)
    yield box
    prometheus.stop()
    alertmanager.stop()


@needs_alertmanager
def test_a_device_that_gets_too_hot_is_told_to_the_webhook_and_that_it_has_cooled(box: Box, webhook: Receiver) -> None:
    box.describe(described(1, extra="temperature_c = 91"))
    hot = box.until(lambda: told(webhook, "firing").get("CorralDeviceHot"))
    assert (hot["labels"]["UUID"], hot["labels"]["severity"]) == (uuid(0), "warning")
    host = os.uname().nodename
    assert hot["annotations"]["summary"] == f"GPU 0 of {host} has 91 degrees Celsius"
    box.describe(described(1, extra="temperature_c = 60"))
    box.until(lambda: "CorralDeviceHot" in told(webhook, "resolved"))
    assert set(told(webhook, "firing")) == {"CorralDeviceHot"}


@needs_alertmanager
def test_alertmanager_takes_the_example() -> None:
    words = ["amtool", "check-config", str(EXAMPLES / "alertmanager.yml")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
