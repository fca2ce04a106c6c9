import http.client
import os
import resource
import socket
import stat
import threading
import time
from pathlib import Path

import pytest

from corral.api.answers.waiting import LONGEST_WAIT_S
from corral.api.server import ApiServer, tcp_socket, unix_socket
from corral.clock import ManualClock
from corral.core.control.token_issuer import TokenIssuer
from corral.core.model.errors import Conflict, Refused
from tests.api.world import PATIENCE_S, TOKEN, Served, World


def test_a_socket_left_by_a_dead_server_is_replaced_silently(home: Path) -> None:
    path = home / "corral.sock"
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(os.fspath(path))
    dead.close()
    with unix_socket(path, for_everyone=False), socket.socket(socket.AF_UNIX) as client:
        client.connect(os.fspath(path))


def test_a_socket_on_which_a_server_answers_is_left_to_it(home: Path) -> None:
    path = home / "corral.sock"
    with unix_socket(path, for_everyone=False), pytest.raises(Conflict, match=r"a server already listens on .*"):
        unix_socket(path, for_everyone=False)


def test_a_file_in_the_place_of_the_socket_is_not_removed(home: Path) -> None:
    path = home / "corral.sock"
    path.write_text("mine")
    with pytest.raises(Refused, match="move it away"):
        unix_socket(path, for_everyone=False)
    assert path.read_text() == "mine"


def test_a_home_that_does_not_exist_is_refused_in_words(home: Path) -> None:
    with pytest.raises(Refused, match=r"cannot listen on .*: No such file or directory"):
        unix_socket(home / "no" / "corral.sock", for_everyone=False)


@pytest.mark.parametrize(("for_everyone", "mode"), [(False, 0o600), (True, 0o666)])
def test_the_socket_lets_in_whom_the_server_is_for(home: Path, for_everyone: bool, mode: int) -> None:
    with unix_socket(home / "corral.sock", for_everyone=for_everyone):
        assert stat.S_IMODE((home / "corral.sock").stat().st_mode) == mode


@pytest.mark.parametrize("address", ["7070", ":7070", "localhost", "localhost:", "127.0.0.1:99999", "::1:70", "a b:1"])
def test_what_is_no_address_is_refused_with_an_example(address: str) -> None:
    with pytest.raises(Refused, match=r"write HOST:PORT, such as 127\.0\.0\.1:7070"):
        tcp_socket(address)


def test_a_port_that_is_taken_is_refused_saying_so() -> None:
    with tcp_socket("127.0.0.1:0") as taken, pytest.raises(Refused, match="Address already in use"):
        tcp_socket(f"127.0.0.1:{taken.getsockname()[1]}")


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_listening_beyond_this_machine_without_encryption_is_refused_unless_wished_for(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Refused, match=r"other machines can reach .*--tls-cert and --tls-key.*--insecure"):
        tcp_socket(address)
    with tcp_socket(address, insecure=True):
        assert "without encryption" in caplog.text
    caplog.clear()
    with tcp_socket(address, encrypted=True), tcp_socket("127.0.0.1:0"), tcp_socket("localhost:0"):
        assert not caplog.text


def test_an_answer_over_tcp_does_not_wait_for_an_acknowledgement() -> None:
    with tcp_socket("127.0.0.1:0") as listener, socket.create_connection(listener.getsockname(), PATIENCE_S):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_socket_and_tcp_are_served_alike(served: Served) -> None:
    job_id = served.submit()
    assert served.call_tcp("GET", f"/jobs/{job_id}").data == served.call("GET", f"/jobs/{job_id}").data


@pytest.mark.parametrize("token", [None, TOKEN + "x", TOKEN[:-1]])
def test_on_tcp_nothing_but_health_is_answered_without_the_token(served: Served, token: str | None) -> None:
    answer = served.call_tcp("GET", "/jobs", token=token)
    assert (answer.status, answer.error["kind"]) == (401, "forbidden")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert served.call_tcp("POST", "/jobs", {"command": ["true"]}, token=token).status == 401
    assert served.call_tcp("GET", "/openapi.json", token=token).status == 401
    assert served.call_tcp("GET", "/health", token=token).status == 200


def test_a_stop_finishes_what_was_begun_and_lets_nobody_wait(served: Served) -> None:
    job_id = served.submit()
    answers: list[bool] = []

    def wait() -> None:
        asked = {"ids": [job_id], "timeout_s": LONGEST_WAIT_S}
        answers.append(served.call("POST", "/jobs/wait", asked).data["done"])

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not served.world.ends._waiters:
        time.sleep(0.005)
    began = time.monotonic()
    served.stop()
    waiting.join(PATIENCE_S)
    assert answers == [False]
    assert time.monotonic() - began < LONGEST_WAIT_S


def test_a_stop_breaks_off_a_followed_log_so_that_it_does_not_look_complete(served: Served) -> None:
    job_id = served.submit()
    served.world.log_of(job_id).write_bytes(b"begun\n")
    with served.connection() as connection:
        connection.request("GET", f"/api/v1/jobs/{job_id}/logs?follow=1")
        response = connection.getresponse()
        assert response.read1() == b"begun\n"
        served.stop()
        with pytest.raises(http.client.IncompleteRead):
            response.read()


def test_a_stop_before_the_start_is_a_start_that_ends_at_once(world: World) -> None:
    from corral.api.requests.auth import Authenticator
    from corral.app.http_api import http_api

    token_issuer = TokenIssuer(
        world.ledger.tokens, ManualClock(), account=lambda name: None, is_admin=lambda uid: False, only_user=None
    )
    app = http_api(world.app_state(Authenticator(token=None), token_issuer))
    listener = unix_socket(world.home.socket, for_everyone=False)
    server = ApiServer(app, [listener], world.ends, on_ready=lambda: None)
    server.stop()
    thread = threading.Thread(target=server.run)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_a_second_request_on_the_same_connection_is_answered(served: Served) -> None:
    with served.connection() as connection:
        for _ in range(3):
            connection.request("GET", "/api/v1/health")
            assert connection.getresponse().read() == b'{"status":"ok"}'


def test_requests_sent_ahead_are_answered_in_order(served: Served) -> None:
    with served.raw_connection() as connection:
        connection.sendall(b"GET /api/v1/health HTTP/1.1\r\nhost: x\r\n\r\n" * 5)
        received = b""
        while received.count(b'{"status":"ok"}') < 5:
            received += connection.recv(4096)


def test_a_waiting_crowd_does_not_keep_others_from_an_answer(served: Served) -> None:
    job_id = served.submit()
    crowd = [served.raw_connection() for _ in range(100)]
    body = b'{"ids": ["%s"], "timeout_s": %d}' % (job_id.encode(), LONGEST_WAIT_S)
    head = b"POST /api/v1/jobs/wait HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
    for connection in crowd:
        connection.sendall(head + body)
    began = time.monotonic()
    assert len(served.call("GET", "/jobs").data["jobs"]) == 1
    assert time.monotonic() - began < LONGEST_WAIT_S
    served.call("POST", f"/jobs/{job_id}/cancel")
    for connection in crowd:
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.close()


def test_connections_beyond_what_the_server_can_serve_are_told_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (0, 0))
    served = Served(world)
    held = [served.raw_connection() for _ in range(64)]
    try:
        answer = served.call("GET", "/health")
        assert (answer.status, answer.error["kind"]) == (503, "backend")
    finally:
        for connection in held:
            connection.close()
        served.stop()
