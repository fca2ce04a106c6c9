"""People are told over real webhooks by a real server: of alerts, and of their jobs, also if it is killed meanwhile."""

import http.client
import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral.client import Client
from tests.e2e.box import CORRAL, Box, described, until_there
from tests.features.channels.receivers import Receiver, receiving

SECRET = "s3cr3t-T0ken"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def configured(box: Box, *lines: str) -> Box:
    config = box.home / "config.yaml"
    config.write_text("\n".join(["user_channel_kinds: [json]", "user_channel_networks: [127.0.0.0/8]", *lines]) + "\n")
    return box


def own_channel(box: Box, url: str) -> None:
    done = subprocess.run(
        [CORRAL, "channels", "set"], input=f"{url}\n", text=True, capture_output=True, env=box.env, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stdout + done.stderr


def kill(box: Box) -> None:
    box.kill()


def metrics(box: Box) -> str:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(box.home / "corral.sock"))
        connection = http.client.HTTPConnection("localhost")
        connection.sock = line
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()


def told(receiver: Receiver) -> list[str]:
    return [f"{body['subject']} {body['state']}" for body in receiver.got]


def test_a_user_is_told_once_of_each_job_by_a_server_that_was_killed_and_by_one_that_was_not(
    new_box: Callable[[str], Box], receiver: Receiver, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    box = configured(new_box(described(2)))
    box.up()
    noted = box.run("submit", "--notify-on", "done", "--gpus", "0", "--", "true")
    assert "you have no channel for messages; set one: corral channels set" in noted.stderr
    unheard = noted.stdout.strip()
    box.ended(unheard)

    def others() -> list[str]:
        """What was told of the jobs after it. On a slow machine it may be told as well."""
        return [one for one in told(receiver) if not one.startswith(f"job {unheard} ")]

    own_channel(box, receiver.url(SECRET))
    with Client(box.home) as client:
        words = ["sh", "-c", until_there(gate)]
        running = client.submit(words, gpus=0, notify_on="started,done,failed").id
    receiver.until(lambda: others() == [f"job {running} started"])
    receiver.says = 500
    with Client(box.home) as client:
        failed = client.submit(["false"], gpus=0, notify_on="failed").id
    receiver.until(lambda: sum(receiver.asked.values()) >= 2)
    kill(box)
    gate.touch()
    receiver.says = 200
    box.up()
    with Client(box.home) as client:
        array = client.submit(["true"], gpus=0, array="0-2", notify_on="done,failed").id
    receiver.until(lambda: len(others()) >= 4)
    assert sorted(others()) == sorted(
        [f"job {running} started", f"job {failed} failed", f"job {running} done", f"job {array} done"]
    )
    with Client(box.home) as client:
        (row,) = client.channels.list()
    assert (row.kind, row.user is not None) == ("json", True)
    for path in box.home.rglob("*"):
        if path.is_file() and path.name != "deliveries.db":
            assert SECRET.encode() not in path.read_bytes(), path


def test_whatever_a_server_tells_is_in_the_name_of_its_cluster_also_after_a_reload(
    new_box: Callable[[str], Box], receiver: Receiver
) -> None:
    ops = f"channels: {{ops: '{receiver.url()}'}}"
    box = configured(new_box(described(1)), ops, "cluster: {name: GPU-Cluster-01}")
    box.up()
    own_channel(box, receiver.url("own"))
    box.ok("alerts", "test", "ops")
    job = box.submit("--notify-on", "done", "--gpus", "0", "--", "true")
    receiver.until(lambda: len(receiver.got) == 2)
    assert [(body["cluster"], body["title"]) for body in receiver.got] == [
        ("GPU-Cluster-01", "GPU-Cluster-01: [info] channel-test: channel ops"),
        ("GPU-Cluster-01", f"GPU-Cluster-01: job {job} done: true"),
    ]
    configured(box, ops, "cluster: {name: renamed}")
    assert "cluster.name: GPU-Cluster-01 -> renamed" in box.ok("config", "reload")
    assert box.api("/api/v1/server")["cluster"] == "renamed"
    assert box.ok("status").startswith("renamed: ")
    assert 'corral_cluster_info{cluster="renamed"} 1' in metrics(box)
    box.ok("alerts", "test", "ops")
    receiver.until(lambda: len(receiver.got) == 3)
    assert receiver.got[2]["title"].startswith("renamed: [info]")


def test_a_gpu_that_gets_too_hot_is_told_over_a_webhook_once_and_so_is_its_end_after_a_kill(
    new_box: Callable[[str], Box], receiver: Receiver
) -> None:
    box = configured(
        new_box(described(2)),
        f"channels: {{ops: '{receiver.url()}'}}",
        "sample_interval: 0.2s",
        "alerts: [{name: hot, when: 'temperature_c > 85'}]",
    )
    box.up()
    box.describe(described(2, extra="temperature_c = 91"))
    # Noted as delivered, and not only taken by the receiver: what is killed in between is told again.
    box.until(lambda: 'corral_alert_deliveries_total{channel="ops",result="delivered"} 2' in metrics(box))
    assert {(body["name"], body["state"], body["value"]) for body in receiver.got} == {("hot", "fired", 91)}
    kill(box)
    box.describe(described(2, extra="temperature_c = 60"))
    box.up()
    receiver.until(lambda: len(receiver.got) >= 4)
    assert re.fullmatch(r"channel ops: delivered in \d+\.\d s\n", box.ok("alerts", "test", "ops"))
    configured(box, f"channels: {{ops: 'jsom://127.0.0.1/{SECRET}'}}")
    refused = box.run("config", "reload")
    assert refused.returncode == 2
    assert "line 3: channels.ops: apprise does not know the kind 'jsom'; did you mean 'json'?" in refused.stderr
    assert SECRET not in refused.stderr + (box.home / "server.log").read_text()
    ids = {
        state: sorted(body["id"] for body in receiver.got[:4] if body["state"] == state)
        for state in ("fired", "resolved")
    }
    assert len(ids["fired"]) == 2
    assert ids["fired"] == ids["resolved"]
