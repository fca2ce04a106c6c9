"""A GPU that gets too hot becomes a message, by the rules and the settings that are there to copy."""

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.box import Box, described, uuid
from tests.e2e.prometheus_site import EXAMPLES, Alertmanager, Prometheus
from tests.prometheus import needs_alertmanager

SOON = {"for: 1m\n        labels: {severity: warning}": "for: 1s\n        labels: {severity: warning}"}


class Webhook:
    """Takes what is posted to it, on a port of its own of this machine."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        bodies = self.bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/alerts"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def alerts(self, status: str) -> dict[str, dict[str, Any]]:
        """What was told to be `firing` or `resolved`, by name."""
        told = [alert for body in tuple(self.bodies) for alert in body["alerts"]]
        return {alert["labels"]["alertname"]: alert for alert in told if alert["status"] == status}

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    webhook = Webhook()
    yield webhook
    webhook.close()


@pytest.fixture
def box(new_box: Callable[[str], Box], tmp_path: Path, webhook: Webhook) -> Iterator[Box]:
    box = new_box(described(1, extra="temperature_c = 60"))
    box.ok("up", "--detach", "--mock", str(box.mock), "--listen", "127.0.0.1:0")
    for name in ("alertmanager", "prometheus"):
        (tmp_path / name).mkdir()
    alertmanager = Alertmanager(box, tmp_path / "alertmanager", webhook.url)
    prometheus = Prometheus(box, tmp_path / "prometheus", alertmanager=alertmanager.address, rules=SOON)
    yield box
    prometheus.stop()
    alertmanager.stop()


@needs_alertmanager
def test_a_device_that_gets_too_hot_is_told_to_the_webhook_and_that_it_has_cooled(box: Box, webhook: Webhook) -> None:
    box.describe(described(1, extra="temperature_c = 91"))
    told = box.until(lambda: webhook.alerts("firing").get("CorralDeviceHot"))
    assert (told["labels"]["UUID"], told["labels"]["severity"]) == (uuid(0), "warning")
    host = os.uname().nodename
    assert told["annotations"]["summary"] == f"GPU 0 of {host} has 91 degrees Celsius"
    box.describe(described(1, extra="temperature_c = 60"))
    box.until(lambda: "CorralDeviceHot" in webhook.alerts("resolved"))
    assert set(webhook.alerts("firing")) == {"CorralDeviceHot"}


@needs_alertmanager
def test_alertmanager_takes_the_example() -> None:
    words = ["amtool", "check-config", str(EXAMPLES / "alertmanager.yml")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
