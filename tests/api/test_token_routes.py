"""Tokens as their holders meet them, over TCP."""

import collections
import http.client
import os
import pwd
import re
from typing import Any

import pytest

from tests.api.world import PATIENCE_S, TOKEN, Served, exchange

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only a server of root's has tokens of other users")

NOBODY = pwd.getpwuid(65534).pw_name


def made(served: Served, **asked: Any) -> dict[str, Any]:
    answer = served.call("POST", "/tokens", asked)
    assert answer.status == 201, answer.data
    found: dict[str, Any] = answer.data
    return found


def test_a_token_is_told_once_and_has_a_form_that_can_be_searched_for(served: Served) -> None:
    answer = served.call("POST", "/tokens", {"user": NOBODY})
    assert sorted(answer.data) == ["expires_at", "id", "scope", "token", "user"]
    assert re.fullmatch("corral_[0-9a-f]{64}", answer.data["token"])
    assert (answer.data["user"], answer.data["scope"]) == (NOBODY, "submit")
    assert answer.data["expires_at"] == pytest.approx(served.clock.now() + 30 * 86400)
    assert answer.headers["cache-control"] == "no-store"
    (row,) = served.call("GET", "/tokens").data["tokens"]
    assert answer.data["token"] not in str(row)
    for file in served.world.home.root.iterdir():
        assert not file.is_file() or answer.data["token"].encode() not in file.read_bytes()


def test_a_job_submitted_with_a_users_token_is_that_users(served: Served) -> None:
    token = made(served, user=NOBODY)["token"]
    job_id = served.call_tcp("POST", "/jobs", {"command": ["true"], "workdir": "/"}, token=token).data["id"]
    assert served.call_tcp("GET", f"/jobs/{job_id}", token=token).data["user"] == NOBODY
    assert served.call_tcp("POST", f"/jobs/{job_id}/cancel", token=token).status == 200


def test_what_each_scope_lets_do(served: Served) -> None:
    of_root = served.submit()
    tokens = {
        **{f"nobody {scope}": made(served, user=NOBODY, scope=scope)["token"] for scope in ("read", "submit")},
        **{f"root {scope}": made(served, scope=scope)["token"] for scope in ("read", "submit", "admin")},
    }
    done = {
        who: [
            served.call_tcp(method, path, body, token=token).status
            for method, path, body in (
                ("GET", "/jobs", None),
                ("POST", "/jobs/dry-run", {"command": ["true"], "workdir": "/"}),
                ("POST", "/jobs/wait", {"ids": [of_root], "timeout_s": 0}),
                ("GET", f"/jobs/{of_root}/logs", None),
                ("POST", "/jobs", {"command": ["true"], "workdir": "/"}),
                ("POST", "/tokens", {"scope": "read"}),
                ("POST", "/devices/0/cordon", {}),
            )
        ]
        for who, token in tokens.items()
    }
    assert done == {
        "nobody read": [200, 200, 200, 403, 403, 403, 403],
        "nobody submit": [200, 200, 200, 403, 201, 201, 403],
        "root read": [200, 200, 200, 200, 403, 403, 403],
        "root submit": [200, 200, 200, 200, 201, 201, 403],
        "root admin": [200, 200, 200, 200, 201, 201, 200],
    }


def test_every_route_that_changes_something_is_shut_to_a_token_that_may_only_look(served: Served) -> None:
    token = made(served, scope="read")["token"]
    described = served.call("GET", "/openapi.json").data["paths"]
    changes = [
        (method, path.removeprefix("/api/v1"))
        for path, methods in described.items()
        for method in {"post", "put", "patch", "delete"} & methods.keys()
    ]
    named: dict[str, str] = collections.defaultdict(lambda: "1", node="a", name="a")
    open_to_it = {
        f"{method} {path}"
        for method, path in changes
        if served.call_tcp(method.upper(), path.format_map(named), {}, token=token).status != 403
    }
    looks = {
        "post /jobs/{job_id}/files/contents",
        "post /jobs/dry-run",
        "post /jobs/wait",
        "post /tasks/estimate",
        "post /replays",
    }
    assert open_to_it == {*looks, "delete /replays/{replay_id}", "delete /session"}


def test_a_revoked_token_is_refused_at_the_next_request_of_the_same_connection(served: Served) -> None:
    token = made(served, user=NOBODY)
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE_S)
    headers = {"Authorization": f"Bearer {token['token']}"}
    assert exchange(connection, "GET", "/jobs", None, headers).status == 200
    assert served.call("POST", f"/tokens/{token['id']}/revoke").data == {"ids": [token["id"]]}
    answer = exchange(connection, "GET", "/jobs", None, headers)
    assert (answer.status, answer.error["kind"]) == (401, "forbidden")
    assert f"token {token['id']} was revoked" in answer.error["message"]
    connection.close()


def test_an_expired_token_is_refused_saying_so(served: Served) -> None:
    token = made(served, user=NOBODY, expires_in_s=60)
    assert served.call_tcp("GET", "/jobs", token=token["token"]).status == 200
    served.clock.advance(61)
    answer = served.call_tcp("GET", "/jobs", token=token["token"])
    assert answer.status == 401
    assert f"token {token['id']} expired at" in answer.error["message"]
    assert served.call("GET", "/tokens").data["tokens"] == []
    (row,) = served.call("GET", "/tokens?all=1").data["tokens"]
    assert row["state"] == "expired"


def test_what_was_made_with_a_token_ends_with_it(served: Served) -> None:
    first = made(served, user=NOBODY, expires_in_s=3600)
    second = served.call_tcp("POST", "/tokens", {"expires_in_s": None}, token=first["token"]).data
    third = served.call_tcp("POST", "/tokens", {"scope": "read"}, token=second["token"]).data
    assert first["expires_at"] == second["expires_at"] == third["expires_at"]
    assert served.call("POST", f"/tokens/{second['id']}/revoke").data["ids"] == [second["id"], third["id"]]
    assert [served.call_tcp("GET", "/jobs", token=one["token"]).status for one in (first, second, third)] == [
        200, 401, 401,
    ]  # fmt: skip


def test_a_token_is_listed_with_who_when_and_its_last_use(served: Served) -> None:
    token = made(served, user=NOBODY)
    own = made(served)
    served.clock.advance(5)
    rows = served.call_tcp("GET", "/tokens", token=token["token"]).data["tokens"]
    assert [row["id"] for row in rows] == [token["id"]]
    assert (rows[0]["created_by"], rows[0]["state"], rows[0]["revoked_at"]) == ("root", "good", None)
    assert rows[0]["last_used_at"] == served.clock.now()
    assert [row["id"] for row in served.call("GET", "/tokens").data["tokens"]] == [token["id"], own["id"]]


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ({"user": "no-such-user"}, 422, "there is no user 'no-such-user' on this machine"),
        ({"user": "\u0000"}, 422, "NUL"),
        ({"scope": "root"}, 422, "scope"),
        ({"expires_in_s": 0}, 422, "at least one second"),
        ({"expires_in_s": 1e300}, 422, "at most ten years"),
        ({"expires_in_s": -1}, 422, "at least one second"),
        ({"user": NOBODY, "scope": "admin"}, 403, f"{NOBODY} is not one"),
    ],
)
def test_what_cannot_be_made_is_refused_in_words(served: Served, asked: Any, status: int, said: str) -> None:
    answer = served.call("POST", "/tokens", asked)
    assert (answer.status, said in answer.error["message"]) == (status, True), answer.data


def test_a_plain_user_learns_nothing_of_tokens_and_users_that_are_not_theirs(served: Served) -> None:
    token = made(served, user=NOBODY)["token"]
    of_root = made(served)["id"]
    for method, path, body in (
        ("POST", f"/tokens/{of_root}/revoke", None),
        ("POST", "/tokens/999/revoke", None),
    ):
        answer = served.call_tcp(method, path, body, token=token)
        assert (answer.status, "you have no token" in answer.error["message"]) == (404, True)
    there, gone = (
        served.call_tcp("POST", "/tokens", {"user": user}, token=token).error["message"].replace(user, "X")
        for user in ("daemon", "no-such-user")
    )
    assert there == gone


def test_a_user_has_a_hundred_tokens_at_most(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corral.core.control.token_issuer.MOST_LIVE", 2)
    first = made(served, user=NOBODY)
    made(served, user=NOBODY)
    assert "already has 2 tokens" in served.call("POST", "/tokens", {"user": NOBODY}).error["message"]
    served.call("POST", f"/tokens/{first['id']}/revoke")
    made(served, user=NOBODY)


def test_the_servers_own_token_is_its_owners(served: Served) -> None:
    job_id = served.call_tcp("POST", "/jobs", {"command": ["true"]}, token=TOKEN).data["id"]
    assert served.call("GET", f"/jobs/{job_id}").data["user"] == "root"


def test_a_token_in_the_query_opens_nothing_and_is_not_repeated(served: Served) -> None:
    token = made(served)["token"]
    assert served.call_tcp("GET", f"/jobs?token={token}", token=None).status == 401
    answer = served.call("GET", f"/jobs?token={token}")
    assert (answer.status, token in answer.error["message"]) == (422, False)
