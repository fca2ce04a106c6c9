"""uvicorn does not document what `PeerProtocol` leans on; these tests hold the pinned version to it."""

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

import pytest

from corral.api import peer
from corral.api.peer import Peer, peer_of
from tests.api.world import PATIENCE_S, Served, World

CALL = """
import http.client, os, socket, sys
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
connection = http.client.HTTPConnection("localhost")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(sys.argv[1])
for method, path, body in (("POST", "/jobs", '{"command": ["true"]}'), *[("POST", p, None) for p in sys.argv[3:]]):
    connection.request(method, "/api/v1" + path, body)
    answer = connection.getresponse()
    print(answer.status, answer.read().decode())
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")


def calls_as(uid: int, served: Served, *paths: str) -> list[tuple[int, Any]]:
    """Status and JSON of a submission and of POSTs to `paths`, sent by a process of that user."""
    command = [sys.executable, "-I", "-c", CALL, os.fspath(served.path), str(uid), *paths]
    said = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
    lines = [line.split(" ", 1) for line in said.splitlines()]
    return [(int(status), json.loads(body)) for status, body in lines]


def test_the_peer_of_a_unix_socket_is_this_process_when_it_is() -> None:
    near, far = socket.socketpair(socket.AF_UNIX)
    with near, far:
        assert peer_of(near) == Peer(os.getpid(), os.geteuid(), os.getegid())


def test_a_tcp_connection_has_no_peer_and_no_connection_none_either() -> None:
    with socket.socket(socket.AF_INET) as connection:
        assert peer_of(connection) is None
    assert peer_of(None) is None


def test_a_request_carries_who_sent_it(served: Served) -> None:
    job = served.call("GET", f"/jobs/{served.submit()}").data
    assert job["spec"]["uid"] == os.geteuid()


@needs_root
def test_two_users_of_a_root_server_are_told_apart(served: Served) -> None:
    ((status, submitted),) = calls_as(54321, served)
    assert status == 201
    job = served.call("GET", f"/jobs/{submitted['id']}").data
    assert (job["user"], job["spec"]["uid"], job["spec"]["groups"]) == ("54321", 54321, [54321])


@needs_root
def test_a_user_may_not_change_anothers_job_and_root_may(served: Served) -> None:
    mine = served.submit()
    (_, submitted), (status, answer) = calls_as(54321, served, f"/jobs/{mine}/cancel")
    assert (status, answer["error"]["kind"]) == (403, "forbidden")
    assert served.call("POST", f"/jobs/{submitted['id']}/cancel").status == 200


@needs_root
def test_a_server_that_is_not_roots_turns_other_users_away(world: World) -> None:
    served = Served(world, server_uid=65534)
    try:
        assert [status for status, _ in calls_as(54321, served)] == [403]
        assert [status for status, _ in calls_as(65534, served)] == [201]
        assert served.call("GET", "/jobs").status == 200
    finally:
        served.stop()


@pytest.mark.parametrize(
    "sent", [b"", b"POST /api/v1/jobs HTTP/1.1\r\n", b"POST /api/v1/jobs HTTP/1.1\r\ncontent-length: 9\r\n\r\n{"]
)
def test_who_does_not_finish_a_request_is_not_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    patience_s = peer.REQUEST_TIMEOUT_S
    monkeypatch.setattr(peer, "REQUEST_TIMEOUT_S", 0.1)
    served = Served(world)
    try:
        with served.raw_connection() as connection:
            began = time.monotonic()
            # The server may have hung up before all was sent, or before it had read that.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(sent)
                assert connection.recv(100) == b""
            assert time.monotonic() - began < patience_s
    finally:
        served.stop()
    assert not caplog.records
