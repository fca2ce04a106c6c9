"""Whatever lasts long ends with the token that it was begun with."""

import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from corral.api import server
from tests.api.world import PATIENCE_S, Served, World, exchange

UPGRADE = (
    "upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n"
    "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)
WAIT = json.dumps({"ids": ["1"], "timeout_s": 30})
LASTING = {
    "events": ("GET /api/v1/events", "", ""),
    "events by WebSocket": ("GET /api/v1/events", UPGRADE, ""),
    "a log": ("GET /api/v1/jobs/1/logs?follow=1", "", ""),
    "a log by WebSocket": ("GET /api/v1/jobs/1/logs", UPGRADE, ""),
    "a wait": ("POST /api/v1/jobs/wait", "", WAIT),
    "a body that comes slowly": ("POST /api/v1/jobs/1/input?offset=0", "content-length: 60000\r\n", "x"),
}
ENDS: dict[str, Callable[[Served, str], object]] = {
    "revoked": lambda served, token_id: served.call("POST", f"/tokens/{token_id}/revoke"),
    "expired": lambda served, token_id: served.clock.advance(120.0),
}


@pytest.fixture
def attentive(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(server, "TOKENS_LOOKED_AT_S", 0.05)
    served = Served(world)
    yield served
    served.stop()


def begun(served: Served, lasting: str, token: str) -> socket.socket:
    raw = socket.create_connection(("127.0.0.1", served.port), PATIENCE_S)
    raw.sendall(head_of(served, lasting, token) + LASTING[lasting][2].encode())
    return raw


def head_of(served: Served, lasting: str, token: str) -> bytes:
    line, headers, body = LASTING[lasting]
    length = "" if "content-length" in headers else f"content-length: {len(body)}\r\n"
    head = f"{line} HTTP/1.1\r\nhost: 127.0.0.1:{served.port}\r\nauthorization: Bearer {token}\r\n{headers}{length}\r\n"
    return head.encode()


def until_all_are_used(served: Served) -> None:
    """Nothing ends what was not begun."""
    tokens = served.app_state.authenticator._tokens
    assert tokens is not None
    while not all(one.last_used_at for one in tokens.all()):
        time.sleep(0.005)


def is_over(raw: socket.socket) -> bool:
    """Whether the connection ends while one is patient; what comes before its end is passed over."""
    try:
        while raw.recv(65536):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("lasting", LASTING)
def test_what_lasts_ends_with_its_token(attentive: Served, lasting: str, how: str) -> None:
    job = attentive.submit()
    assert job == "1"
    made = attentive.call("POST", "/tokens", {"scope": "submit", "expires_in_s": 60}).data
    other = attentive.call("POST", "/tokens", {"scope": "submit"}).data
    with begun(attentive, lasting, made["token"]) as raw, begun(attentive, lasting, other["token"]) as lives_on:
        until_all_are_used(attentive)
        ENDS[how](attentive, made["id"])
        assert is_over(raw)
        lives_on.settimeout(0.3)
        assert not is_over(lives_on)


@pytest.mark.parametrize("how", ENDS)
def test_a_connection_outlives_the_tokens_of_earlier_requests(attentive: Served, how: str) -> None:
    """A reverse proxy sends the requests of many users on one connection."""
    ending = attentive.call("POST", "/tokens", {"scope": "submit", "expires_in_s": 60}).data
    other = attentive.call("POST", "/tokens", {"scope": "submit"}).data
    connection = http.client.HTTPConnection("127.0.0.1", attentive.port, timeout=PATIENCE_S)
    assert exchange(connection, "GET", "/jobs", None, bearer(ending)).status == 200
    with connection.sock as kept:
        kept.sendall(head_of(attentive, "events", other["token"]))
        until_all_are_used(attentive)
        ENDS[how](attentive, ending["id"])
        kept.settimeout(0.5)
        assert not is_over(kept)
        kept.settimeout(PATIENCE_S)
        attentive.call("POST", f"/tokens/{other['id']}/revoke")
        assert is_over(kept)


def test_a_connection_that_rests_serves_whoever_comes_next(attentive: Served) -> None:
    ended = attentive.call("POST", "/tokens", {"scope": "submit"}).data
    next_one = attentive.call("POST", "/tokens", {"scope": "submit"}).data
    connection = http.client.HTTPConnection("127.0.0.1", attentive.port, timeout=PATIENCE_S)
    assert exchange(connection, "GET", "/jobs", None, bearer(ended)).status == 200
    kept = connection.sock
    assert kept is not None
    attentive.call("POST", f"/tokens/{ended['id']}/revoke")
    kept.settimeout(0.3)
    assert not is_over(kept)
    kept.settimeout(PATIENCE_S)
    assert exchange(connection, "GET", "/jobs", None, bearer(ended)).status == 401
    assert exchange(connection, "GET", "/jobs", None, bearer(next_one)).status == 200
    assert connection.sock is kept
    connection.close()


def bearer(made: dict[str, str]) -> dict[str, str]:
    return {"authorization": f"Bearer {made['token']}"}
