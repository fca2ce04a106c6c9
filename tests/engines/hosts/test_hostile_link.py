"""The link to one host whose agent is hostile: a shell stands for `ssh`, and greets as the agent does not."""

import json
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.core.model.devices.joined_host import HostEntry, HostState, JoinedHost
from corral.engines.hosts.host_link import HostLink
from corral.engines.hosts.ssh import SshRoute
from corral.engines.hosts.turns import SpacedTurns
from corral.host.node.agent_claim import ServerClaim
from corral.host.node.protocol import GREETING, VERSION

DEEP = b"[" * 600 + b'"\\u0007"' + b"]" * 600
GREETINGS = {
    "an error": json.dumps({"error": "BackendFailed", "message": "no\x1b[2J"}).encode(),
    "an error that agents do not raise": json.dumps({"error": "DevicesTaken", "message": 7}).encode(),
    "values too deep in each other": b'{"a":' + DEEP + b"}",
    "no version": b'{"corral-agent": ' + DEEP.replace(b'"\\u0007"', b"1") + b"}",
    "a number of many digits": b'{"corral-agent": ' + b"9" * 5000 + b"}",
    "no object": b"[1]",
    "no JSON": b"\xff",
}


@dataclass(frozen=True, slots=True)
class ShellRoute(SshRoute):
    """A route on which a script stands for `ssh`."""

    script: str = ""

    def first_session(self, command: str, *, accept_new: bool = False) -> list[str]:
        return ["sh", "-c", self.script]


def greets(directory: Path, greeting: bytes) -> None:
    """Let sessions from now on begin with this greeting."""
    framed = struct.pack(">I", len(greeting)) + greeting
    (directory / "greeting").write_bytes(b"corral-agent-connection 10.0.0.5\n" + framed)


def a_link(directory: Path, script: str = "") -> HostLink:
    honest = f"cat {directory}/greeting; exec cat >/dev/null"
    route = ShellRoute("gpu-01", directory / "control", script=script or honest)
    claim = ServerClaim("tag", "", "root@head:/var/lib/corral")
    return HostLink(HostEntry("gpu-01"), route, ManualClock(), lambda _: None, claim=claim, install=lambda *_: route)


def until(link: HostLink, true: Callable[[JoinedHost], bool]) -> JoinedHost:
    deadline = time.monotonic() + 20
    while not true(row := link.row()):
        assert time.monotonic() < deadline, row
        time.sleep(0.01)
    return row


@pytest.mark.parametrize("greeting", GREETINGS.values(), ids=GREETINGS)
def test_a_greeting_that_makes_no_sense_is_a_reason_and_the_link_goes_on(tmp_path: Path, greeting: bytes) -> None:
    greets(tmp_path, greeting)
    link = a_link(tmp_path)
    link.start()
    try:
        reason = until(link, lambda row: row.state is HostState.REFUSED).reason
        assert reason is not None
        assert reason.isprintable()
        assert len(reason) < 3000
        greets(tmp_path, json.dumps({GREETING: VERSION, "version": "1"}).encode())
        link.try_again()
        until(link, lambda row: row.state is HostState.READY)
    finally:
        link.close(time.monotonic() + 10)


def test_hosts_that_never_answer_hold_up_neither_another_host_nor_the_end(tmp_path: Path) -> None:
    greets(tmp_path, json.dumps({GREETING: VERSION, "version": "1"}).encode())
    silent = [a_link(tmp_path, script="exec sleep 60") for _ in range(12)]
    link = a_link(tmp_path)
    for one in (*silent, link):
        one.start()
    until(link, lambda row: row.state is HostState.READY)
    assert {one.row().state for one in silent} == {HostState.CONNECTING}
    began = time.monotonic()
    for one in (*silent, link):
        one.close()
    for one in (*silent, link):
        one.close(began + 10)
        assert not one._thread.is_alive()


def test_turns_are_apart_and_come_in_order() -> None:
    turns = SpacedTurns(5.0)
    first, second, third = (turns.take() for _ in range(3))
    assert first == 0
    assert 4 < second <= 5
    assert 9 < third <= 10
