"""A GPU that gets too hot becomes a message of the server's own, and its end another, over a kill."""

from collections.abc import Callable

from tests.e2e.box import Box, described, uuid
from tests.features.channels.receivers import receiving

RULE = '{name: temperature, when: "temperature_c > 85", for: 1s, clear: 80, severity: critical, to: [ops]}'


def test_a_hot_gpu_is_told_once_acknowledged_and_told_to_be_over_by_the_next_server(
    new_box: Callable[[str], Box],
) -> None:
    with receiving() as receiver:
        box = new_box(described(1, extra="temperature_c = 50"))
        config = box.home / "config.yaml"
        config.write_text(f"sample_interval: 0.5s\nchannels: {{ops: '{receiver.url()}'}}\nalerts: [{RULE}]\n")
        config.chmod(0o600)
        box.up()
        assert box.ok("alerts", "test", "ops").startswith("channel ops: delivered in ")
        receiver.got.clear()
        box.describe(described(1, extra="temperature_c = 91"))
        receiver.until(lambda: receiver.got)
        (alert,) = box.json("alerts", "--json")["alerts"]
        fired = receiver.got[0]
        assert (fired["name"], fired["state"], fired["severity"]) == ("temperature", "fired", "critical")
        assert (fired["id"], fired["subject"], fired["value"]) == (alert["id"], f"device {uuid(0)}", 91)
        assert "alerts: 1 critical (corral alerts)" in box.ok("status")
        box.ok("alerts", "ack", alert["id"])
        assert "alerts: " not in box.ok("status")
        box.kill()
        box.up()
        (again,) = box.json("alerts", "--json")["alerts"]
        assert (again["id"], again["acknowledged_by"] is None) == (alert["id"], False)
        box.describe(described(1, extra="temperature_c = 60"))
        receiver.until(lambda: len(receiver.got) >= 2)
        assert [(body["id"], body["state"]) for body in receiver.got] == [
            (alert["id"], "fired"),
            (alert["id"], "resolved"),
        ]
        box.until(lambda: box.ok("alerts") == "no alerts\n")
        assert [row["state"] for row in box.json("alerts", "--all", "--json")["alerts"]] == ["resolved"]
