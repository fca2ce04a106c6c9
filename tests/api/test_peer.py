"""uvicorn does not document what `PeerProtocol` leans on; these tests hold the pinned version to it."""

import gc
import json
import os
import socket
import subprocess
import sys
import time
import weakref
from collections import deque
from contextlib import suppress
from typing import Any

import pytest

from corral.api.connections import connection_limits, peer
from corral.api.connections.connection_limits import ConnectionLimits
from corral.api.connections.peer import PeerProtocol, peer_at
from corral.unix_peer import Peer
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
        assert peer_at(near) == Peer(os.getpid(), os.geteuid(), os.getegid())


def test_a_tcp_connection_has_no_peer_and_no_connection_none_either() -> None:
    with socket.socket(socket.AF_INET) as connection:
        assert peer_at(connection) is None
    assert peer_at(None) is None


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


def submission_with(fields: bytes) -> bytes:
    body = b'{"command": ["true"]}'
    return b"POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n%b\r\n%b" % (len(body), fields, body)


TOO_MUCH = {
    "one long field": b"x: %b\r\n" % (b"x" * 189_000),
    "long fields": b"".join(b"x-%d: %b\r\n" % (i, b"x" * 1900) for i in range(100)),
    "many fields": b"a: b\r\n" * peer.MOST_FIELDS,
}


@pytest.mark.parametrize("fields", sorted(TOO_MUCH))
def test_what_has_too_large_a_head_is_refused_and_not_done_though_all_of_it_came_at_once(
    served: Served, fields: str
) -> None:
    with served.raw_connection() as connection, suppress(BrokenPipeError):
        connection.sendall(submission_with(TOO_MUCH[fields]))
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1000).startswith(b"HTTP/1.1 431 ")
    assert served.call("GET", "/jobs?all=1").data["jobs"] == []


def test_as_many_fields_as_are_allowed_are_no_problem(served: Served) -> None:
    with served.raw_connection() as connection:
        connection.sendall(submission_with(b"a: b\r\n" * (peer.MOST_FIELDS - 2)))
        assert connection.recv(1000).startswith(b"HTTP/1.1 201 ")


def wait_for(job: str) -> bytes:
    """A request that is answered when the job has ended."""
    body = json.dumps({"ids": [job], "timeout_s": PATIENCE_S}).encode()
    return b"POST /api/v1/jobs/wait HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def the_connection(served: Served) -> PeerProtocol:
    """The server's side of the only connection to it."""
    while len(connections := served.server._server.server_state.connections) != 1:
        time.sleep(0.001)
    (connection,) = connections
    assert isinstance(connection, PeerProtocol)
    return connection


@pytest.mark.parametrize("head", [b"x: %b\r\n" % (b"x" * 60_000), b""], ids=["large", "tiny"])
def test_requests_that_wait_for_an_answer_are_neither_parsed_nor_received(served: Served, head: bytes) -> None:
    job = served.submit()
    waits = wait_for(job)
    one = b"GET /api/v1/health HTTP/1.1\r\n%b\r\n" % head
    with served.raw_connection() as connection:
        connection.sendall(waits)
        connection.setblocking(False)
        sent, waited = 0, time.monotonic()
        # Until the kernel takes no more either.
        while time.monotonic() - waited < 0.3:
            try:
                sent += connection.send((one * 200)[sent % len(one) :])
                waited = time.monotonic()
            except BlockingIOError:
                time.sleep(0.01)
        near = the_connection(served)
        assert len(near.pipeline) <= peer.PIECE_BYTES // len(b"GET / HTTP/1.1\r\n\r\n")
        assert len(near._unparsed) <= 2 * peer._READ_BYTES
        served.call("POST", f"/jobs/{job}/cancel")
        connection.settimeout(PATIENCE_S)
        answered, received = 0, b""
        while answered < sent // len(one):
            received = received[-20:].rpartition(b"}")[2] + connection.recv(65536)
            answered += received.count(b'{"status":"ok"}')


@pytest.mark.parametrize(
    "broken", [b"BREW / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\na: b\r\n" + TOO_MUCH["many fields"] + b"\r\n"]
)
def test_a_refusal_is_not_taken_for_the_answer_to_the_request_before(served: Served, broken: bytes) -> None:
    job = served.submit()
    waits = wait_for(job)
    with served.raw_connection() as connection:
        connection.sendall(waits + broken)
        served.call("POST", f"/jobs/{job}/cancel")
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert received.count(b"HTTP/1.1 ") == 1
    assert received.startswith(b"HTTP/1.1 200 ")


def test_long_heads_of_all_connections_count_together(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "MAX_HEADS_BYTES", 200_000)
    served = Served(world)
    unfinished = b"GET /api/v1/health HTTP/1.1\r\nx: " + b"x" * 60_000
    try:
        with served.raw_connection() as first:
            first.sendall(unfinished)
            with served.raw_connection() as second:
                second.sendall(unfinished)
                assert second.recv(1000).startswith(b"HTTP/1.1 503 ")
            assert served.call("GET", "/health").status == 200
            first.sendall(b"\r\n\r\n")
            assert first.recv(1000).startswith(b"HTTP/1.1 200 ")
        for _ in range(5):
            with served.raw_connection() as later:
                later.sendall(unfinished + b"\r\n\r\n")
                assert later.recv(1000).startswith(b"HTTP/1.1 200 ")
    finally:
        served.stop()


HANDSHAKE = (
    b"GET /api/v1/events HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
CALLS = {
    "an answer": b"GET /api/v1/health HTTP/1.1\r\nhost: x\r\n\r\n",
    "no answer": b"GET /api/v1/health HTTP/1.1\r\nhost: x",
    "a refusal": b"nonsense",
    "a stream": b"GET /api/v1/events HTTP/1.1\r\nhost: x\r\n\r\n",
    "a log": b"GET /api/v1/jobs/JOB/logs?follow=1 HTTP/1.1\r\nhost: x\r\n\r\n",
    "a WebSocket": HANDSHAKE,
    "a log's WebSocket": HANDSHAKE.replace(b"events", b"jobs/JOB/logs"),
}


@pytest.mark.parametrize("call", sorted(CALLS))
def test_a_connection_that_has_gone_leaves_nothing_for_the_garbage_collector(served: Served, call: str) -> None:
    job = served.submit()
    with served.raw_connection() as connection:
        connection.sendall(CALLS[call].replace(b"JOB", job.encode()))
        if call != "no answer":
            connection.recv(1000)
        sides: list[object] = [*served.server._server.server_state.connections]
        sides += [one for one in gc.get_objects() if type(one) is PeerProtocol]
        gone = [weakref.ref(one) for one in sides]
        del sides
        gc.disable()
    try:
        patience_until = time.monotonic() + PATIENCE_S
        while any(one() is not None for one in gone):
            assert time.monotonic() < patience_until
            time.sleep(0.01)
    finally:
        gc.enable()


def test_one_user_leaves_connections_to_others() -> None:
    limits = ConnectionLimits(8)
    assert [limits.enter("greedy", count) for count in range(1, 9)] == [True] * 6 + [False] * 2
    for _ in range(8):
        limits.leave("greedy")
    assert limits.enter("greedy", 1)
    assert limits.enter("modest", 2)
    assert not limits.enter("late", 9)
