"""uvicorn does not document what `PeerProtocol` leans on; these tests hold the pinned version to it."""

import json
import os
import socket
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from typing import Any

import pytest

from corral.api import peer
from corral.api.peer import Peer, peer_of
from tests.api.world import PATIENCE_S, TOKEN, Served, World

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


ENDLESS = {
    "head": [b"GET /api/v1/health HTTP/1.1\r\n", *[b"x-%d: v\r\n" % i for i in range(200_000)]],
    "header": [b"GET /api/v1/health HTTP/1.1\r\nx: ", *[b"x" * 1000] * 2000],
    "path": [b"GET /api/v1/health", *[b"x" * 1000] * 2000],
    "trailer": [
        b"POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n",
        *[b"x-%d: v\r\n" % i for i in range(200_000)],
    ],
    "chunk size": [
        b"POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1;",
        *[b"x" * 1000] * 2000,
    ],
}


@pytest.mark.parametrize("part", sorted(ENDLESS))
def test_a_request_without_end_is_refused_after_so_much(served: Served, part: str) -> None:
    with served.raw_connection() as connection:
        # It hangs up long before all is sent.
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            deque(map(connection.sendall, ENDLESS[part]), maxlen=0)
        with suppress(ConnectionResetError):
            assert connection.recv(1000).startswith(b"HTTP/1.1 431 ")


def test_a_large_head_and_many_requests_in_one_go_are_answered(served: Served) -> None:
    large = b"GET /api/v1/health HTTP/1.1\r\nhost: x\r\nx-large: %b\r\n\r\n" % (b"x" * 60_000)
    with served.raw_connection() as connection:
        connection.sendall(large * 20)
        received = b""
        while received.count(b'{"status":"ok"}') < 20:
            received += connection.recv(65536)


def test_a_trailer_is_no_header(served: Served) -> None:
    body = b"POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    with socket.create_connection(("127.0.0.1", served.port), PATIENCE_S) as connection:
        connection.sendall(body + b"authorization: Bearer " + TOKEN.encode() + b"\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 401 ")


def test_who_does_not_read_a_large_answer_is_let_go(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "REQUEST_TIMEOUT_S", 0.2)
    monkeypatch.setattr(peer, "MAX_UNREAD_BYTES", 1000)
    for _ in range(40):
        served.submit(env={"LARGE": "x"}, name="n" * 200, command=["x" * 20_000])
    with served.raw_connection() as connection:
        connection.sendall(b"GET /api/v1/jobs?all=1 HTTP/1.1\r\nhost: x\r\n\r\n")
        received = connection.recv(1)
        # It is let go while no more is read; then there is less than all to read.
        while served.server._server.server_state.connections:
            time.sleep(0.01)
        received += b"".join(iter(lambda: connection.recv(65536), b""))
    assert 0 < len(received) < 800_000
