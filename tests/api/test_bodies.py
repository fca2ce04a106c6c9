"""What is sent is bounded before it is parsed: each body, all of them together, and what one user has of that."""

import json
import socket
import threading
from collections.abc import Iterator

import pytest

from corral.api.answers.errors import Busy
from corral.api.requests.bodies import MAX_BATCH_BYTES, MAX_BODY_BYTES, MAX_SUBMIT_BYTES, InFlight
from tests.api.world import Answer, Served

MIB = 2**20


def head(path: str, framing: str) -> bytes:
    return f"POST /api/v1{path} HTTP/1.1\r\nhost: x\r\n{framing}\r\n\r\n".encode()


def answer_on(connection: socket.socket) -> tuple[int, str]:
    received = b""
    while b"\r\n\r\n" not in received or not received.endswith(b"}"):
        received += connection.recv(65536)
    start, _, body = received.partition(b"\r\n\r\n")
    return int(start.split()[1]), json.loads(body)["error"]["message"]


@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("/jobs", MAX_SUBMIT_BYTES),
        ("/jobs/dry-run", MAX_SUBMIT_BYTES),
        ("/jobs/batch", MAX_BATCH_BYTES),
        ("/jobs/wait", MAX_BODY_BYTES),
        ("/jobs/adopt", MAX_BODY_BYTES),
        ("/jobs/1/cancel", MAX_BODY_BYTES),
        ("/devices/0/cordon", MAX_BODY_BYTES),
    ],
)
def test_a_body_that_says_to_be_too_large_is_refused_before_it_is_sent(served: Served, path: str, most: int) -> None:
    with served.raw_connection() as connection:
        connection.sendall(head(path, f"content-length: {most + 1}"))
        status, message = answer_on(connection)
    assert status == 413
    assert "1 byte more than the" in message
    with served.raw_connection() as connection:
        connection.sendall(head(path, f"content-length: {most}") + b" " * most)
        assert answer_on(connection)[0] not in (413, 500)


def test_a_body_in_chunks_is_refused_as_soon_as_it_is_too_large(served: Served) -> None:
    chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
    with served.raw_connection() as connection:
        connection.sendall(head("/jobs/wait", "transfer-encoding: chunked") + chunk * 3)
        status, message = answer_on(connection)
    assert status == 413
    assert message == "the request body is larger than the limit of 64 KiB"


def test_the_connection_goes_on_after_a_body_that_was_too_large(served: Served) -> None:
    with served.connection() as connection:
        connection.request("POST", "/api/v1/jobs", b" " * (13 * MIB))
        refused = Answer(connection.getresponse())
        assert refused.error["message"].startswith(
            "the request body has 13 MiB, 1 MiB more than the limit of 12 MiB; shorten"
        )
        connection.request("GET", "/api/v1/health")
        assert connection.getresponse().status == 200


def test_the_description_tells_how_large_a_body_may_be(served: Served) -> None:
    paths = served.call("GET", "/openapi.json").data["paths"]
    assert paths["/api/v1/jobs"]["post"]["requestBody"]["x-max-bytes"] == MAX_SUBMIT_BYTES
    assert paths["/api/v1/jobs/wait"]["post"]["requestBody"]["x-max-bytes"] == MAX_BODY_BYTES


def test_bodies_of_nested_lists_are_answered_at_once_and_keep_nobody_waiting(served: Served) -> None:
    body = b"[" + b"[]," * (7 * MIB) + b"[]]"
    answers: list[Answer] = []
    threads = [
        threading.Thread(target=lambda: answers.append(served.call("POST", "/jobs/batch", body))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    assert served.call("GET", "/jobs").status == 200
    for thread in threads:
        thread.join()
    # One at a time is read of one user's.
    assert {answer.status for answer in answers} <= {413, 503}
    assert any(answer.status == 413 for answer in answers)


@pytest.fixture
def stalled(served: Served) -> Iterator[socket.socket]:
    """A connection on which nearly all of the largest batch has been sent."""
    with served.raw_connection() as connection:
        connection.sendall(head("/jobs/batch", f"content-length: {MAX_BATCH_BYTES}"))
        connection.sendall(b" " * (MAX_BATCH_BYTES - 1))
        yield connection


def test_who_has_sent_as_much_as_is_taken_is_told_to_try_again_and_can(served: Served, stalled: socket.socket) -> None:
    in_flight = served.app_state.in_flight
    while in_flight.taken() < MAX_BATCH_BYTES - 1:
        pass
    answer = served.call("POST", "/jobs", {"command": ["true"]})
    assert (answer.status, answer.error["kind"], answer.headers["retry-after"]) == (503, "backend", "1")
    assert "try again in a moment" in answer.error["message"]
    # What carries no body is answered all the same, and others are not kept out.
    assert served.call("GET", "/jobs").status == 200
    in_flight.take("somebody else", MIB)
    in_flight.give_back("somebody else", MIB)
    stalled.close()
    while in_flight.taken():
        pass
    assert served.call("POST", "/jobs", {"command": ["true"]}).status == 201


def test_all_users_together_have_no_more_than_there_is() -> None:
    in_flight = InFlight(10)
    in_flight.take("ann", 5)
    with pytest.raises(Busy, match="ann already has"):
        in_flight.take("ann", 1)
    in_flight.take("bob", 5)
    with pytest.raises(Busy, match="10 bytes of requests"):
        in_flight.take("eve", 1)
    in_flight.give_back("bob", 5)
    in_flight.take("eve", 1)
    assert in_flight.taken() == 6
