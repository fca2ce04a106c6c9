import asyncio
import grp
import os
import pwd
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from corral.api.answers.errors import Unauthenticated
from corral.api.requests import auth
from corral.api.requests.auth import Authenticator, ensure_token, find_account, look_up
from corral.clock import ManualClock
from corral.core.access.caller import Caller
from corral.core.access.token_digest import digest_of
from corral.core.model.errors import Forbidden, Refused
from corral.core.model.token import Token, TokenScope
from corral.unix_peer import Peer

NOBODY = pwd.getpwuid(65534)
TOKEN = "a-token-of-sufficient-length"


def request(state: dict[str, Any], authorization: str | None = None) -> Request:
    headers = [] if authorization is None else [(b"authorization", authorization.encode("latin-1"))]
    return Request({"type": "http", "headers": headers, "state": state})


def caller(authenticator: Authenticator, state: dict[str, Any], authorization: str | None = None) -> Caller:
    return asyncio.run(authenticator.caller_of(request(state, authorization)))


def test_on_the_socket_the_caller_is_who_the_kernel_says() -> None:
    server = Authenticator(token=None, server_uid=0)
    assert caller(server, {"peer": Peer(1, 65534, 65534)}).user == pwd.getpwuid(65534).pw_name


def test_a_callers_groups_are_all_groups_of_that_user() -> None:
    found = look_up(0, 0, True)
    assert grp.getgrgid(found.groups[0]).gr_gid in os.getgrouplist("root", 0)
    assert found == Caller("root", 0, 0, tuple(sorted(os.getgrouplist("root", 0))), True, overseer=True)


def test_a_user_that_has_no_name_goes_by_the_number() -> None:
    assert look_up(54321, 54322, False) == Caller("54321", 54321, 54322, (54322,), False)


def test_the_group_of_the_calling_process_does_not_count_for_a_user_with_a_name() -> None:
    assert look_up(65534, 0, False).gid == pwd.getpwuid(65534).pw_gid


def test_root_and_the_servers_own_user_are_administrators_and_nobody_else_is() -> None:
    assert caller(Authenticator(token=None, server_uid=65534), {"peer": Peer(1, 0, 0)}).admin
    assert caller(Authenticator(token=None, server_uid=65534), {"peer": Peer(1, 65534, 65534)}).admin
    assert not caller(Authenticator(token=None, server_uid=0), {"peer": Peer(1, 65534, 65534)}).admin


def test_a_server_that_is_not_roots_answers_its_own_user_and_root_only_and_says_why() -> None:
    server = Authenticator(token=None, server_uid=65534)
    with pytest.raises(Forbidden, match="runs jobs as nobody only; start your own"):
        caller(server, {"peer": Peer(1, 54321, 54321)})


def test_a_connection_that_does_not_say_who_is_there_is_denied() -> None:
    with pytest.raises(Unauthenticated, match="cannot tell who you are"):
        caller(Authenticator(token=TOKEN), {}, f"Bearer {TOKEN}")


def test_the_holder_of_the_token_is_the_servers_own_user() -> None:
    found = caller(Authenticator(token=TOKEN), {"peer": None, "tokens": set()}, f"bearer {TOKEN}")
    assert found.admin
    assert found.uid == os.geteuid()


@pytest.mark.parametrize(
    ("authorization", "said"),
    [
        (None, "Authorization: Bearer TOKEN"),
        ("", "corral token create"),
        ("Basic abc", "Authorization: Bearer TOKEN"),
        ("Bearer", "Authorization: Bearer TOKEN"),
        (f"Bearer {TOKEN}x", "token is unknown here"),
        (f"Bearer {TOKEN[:-1]}", "token is unknown here"),
        ("Bearer \xff\xfe", "token is unknown here"),
        ("Bearer " + "x" * 60_000, "longer than 1024 characters"),
    ],
)
def test_on_tcp_nobody_is_answered_without_a_token(authorization: str | None, said: str) -> None:
    with pytest.raises(Unauthenticated, match=said) as refused:
        caller(Authenticator(token=TOKEN), {"peer": None, "tokens": set()}, authorization)
    assert TOKEN[:-1] not in str(refused.value)


def proxied(path: str, **headers: str) -> Request:
    given = {"x-forwarded-uri": path, **{name.replace("_", "-"): value for name, value in headers.items()}}
    encoded = [(name.encode(), value.encode()) for name, value in given.items()]
    return Request({"type": "http", "headers": encoded, "state": {"peer": None, "tokens": set()}})


BY_PROXY = "/api/v1/namespaces/corral-system/services/https:corral:https/proxy/api/v1/jobs"


def test_through_an_api_servers_proxy_a_token_comes_in_a_header_of_its_own() -> None:
    found = asyncio.run(Authenticator(token=TOKEN).caller_of(proxied(BY_PROXY, x_corral_token=TOKEN)))
    assert found.uid == os.geteuid()


@pytest.mark.parametrize("path", ["", "/api/v1/jobs", "/x" + BY_PROXY])
def test_elsewhere_that_header_does_not_count(path: str) -> None:
    with pytest.raises(Unauthenticated, match="only through the API server's proxy"):
        asyncio.run(Authenticator(token=TOKEN).caller_of(proxied(path, x_corral_token=TOKEN)))


def test_authorization_goes_before_the_header_of_the_proxy() -> None:
    request = proxied(BY_PROXY, x_corral_token=TOKEN, authorization=f"Bearer {TOKEN}x")
    with pytest.raises(Unauthenticated, match="token is unknown here"):
        asyncio.run(Authenticator(token=TOKEN).caller_of(request))


def test_a_server_without_a_token_answers_nobody_on_tcp() -> None:
    with pytest.raises(Unauthenticated, match="token is unknown here"):
        caller(Authenticator(token=None), {"peer": None, "tokens": set()}, f"Bearer {TOKEN}")


class OneToken:
    """A token of nobody's, whose secret is TOKEN."""

    def __init__(self, **differently: Any) -> None:
        given = {"id": "7", "user": NOBODY.pw_name, "uid": NOBODY.pw_uid, "scope": TokenScope.SUBMIT}
        self.token = Token(**{**given, "created_at": 0.0, "created_by": "root", **differently})
        self.uses: list[tuple[str, float]] = []

    def find(self, digest: str) -> Token | None:
        return self.token if digest == digest_of(TOKEN) else None

    def all(self) -> tuple[Token, ...]:
        return (self.token,)

    def add(self, token: Token, digest: str) -> Token:
        raise NotImplementedError

    def revoke(self, token_ids: Collection[str], at: float) -> None:
        raise NotImplementedError

    def used(self, token_id: str, at: float) -> None:
        self.uses.append((token_id, at))


def holder(tokens: OneToken, *, at: float = 50.0, server_uid: int = 0) -> Caller:
    server = Authenticator(token=None, tokens=tokens, clock=ManualClock(at), server_uid=server_uid)
    return caller(server, {"peer": None, "tokens": set()}, f"Bearer {TOKEN}")


def test_the_holder_of_a_users_token_is_that_user_with_all_groups_and_no_more() -> None:
    tokens = OneToken()
    found = holder(tokens)
    groups = tuple(sorted(os.getgrouplist(NOBODY.pw_name, NOBODY.pw_gid)))
    assert (found.user, found.uid, found.gid, found.groups) == (NOBODY.pw_name, NOBODY.pw_uid, NOBODY.pw_gid, groups)
    assert (found.admin, found.overseer, found.scope, found.token) == (False, False, TokenScope.SUBMIT, tokens.token)
    assert tokens.uses == [("7", 50.0)]


@pytest.mark.parametrize(
    ("scope", "admin"), [(TokenScope.READ, False), (TokenScope.SUBMIT, False), (TokenScope.ADMIN, True)]
)
def test_an_administrators_token_administers_only_with_that_scope(scope: TokenScope, admin: bool) -> None:
    found = holder(OneToken(user="root", uid=0, scope=scope))
    assert (found.admin, found.overseer) == (admin, True)


def test_an_administrators_scope_makes_nobody_an_administrator() -> None:
    assert not holder(OneToken(scope=TokenScope.ADMIN)).admin


@pytest.mark.parametrize(
    ("differently", "said"),
    [
        ({"expires_at": 50.0}, "token 7 expired at 1970-01-01"),
        ({"revoked_at": 10.0, "expires_at": 20.0}, "token 7 was revoked"),
        ({"uid": 54321}, r"made for nobody \(user id 54321\), and this user no longer exists"),
        ({"user": "ghost"}, r"made for ghost \(user id 65534\), and this user no longer exists"),
    ],
)
def test_a_token_that_is_over_or_whose_user_is_gone_is_refused_saying_which(
    differently: dict[str, Any], said: str
) -> None:
    tokens = OneToken(**differently)
    with pytest.raises(Unauthenticated, match=said):
        holder(tokens)
    assert tokens.uses == []


def test_a_token_is_good_until_the_moment_it_expires() -> None:
    assert holder(OneToken(expires_at=50.1)).user == NOBODY.pw_name


def test_a_server_that_is_not_roots_takes_its_own_users_tokens_only() -> None:
    assert holder(OneToken(), server_uid=NOBODY.pw_uid).overseer
    with pytest.raises(Unauthenticated, match="token 7 belongs to root; this server runs jobs as nobody only"):
        holder(OneToken(user="root", uid=0), server_uid=NOBODY.pw_uid)


def test_a_change_of_the_users_of_this_machine_counts_when_it_is_next_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "passwd").write_text("a change")
    monkeypatch.setattr(auth, "_STAMP_AGE_S", 0.0)
    monkeypatch.setattr(auth, "_USER_FILES", (str(tmp_path / "passwd"), str(tmp_path / "group")))
    looked: list[int] = []

    def look(uid: int, gid: int, admin: bool) -> Caller:
        looked.append(uid)
        return look_up(uid, gid, admin)

    monkeypatch.setattr(auth, "look_up", look)
    server = Authenticator(token=None, server_uid=0)
    for _ in range(2):
        caller(server, {"peer": Peer(1, 65534, 65534)})
    assert looked == [65534]
    (tmp_path / "group").write_text("a group")
    caller(server, {"peer": Peer(1, 65534, 65534)})
    assert looked == [65534, 65534]


def test_an_account_goes_by_the_first_name_of_its_number() -> None:
    assert find_account("nobody") == ("nobody", 65534)
    assert find_account("no-such-user") is None
    assert find_account("nul\0") is None


def test_the_token_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = ensure_token(path)
    assert len(token) >= 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert ensure_token(path) == token
    assert [entry.name for entry in tmp_path.iterdir()] == ["token"]


def test_two_homes_have_different_tokens(tmp_path: Path) -> None:
    assert ensure_token(tmp_path / "a") != ensure_token(tmp_path / "b")


def test_a_fifo_in_the_place_of_the_token_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token", 0o600)
    with pytest.raises(Refused, match="not a regular file; remove the file"):
        ensure_token(tmp_path / "token")


def test_a_token_that_others_may_read_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "token"
    ensure_token(path)
    path.chmod(0o640)
    with pytest.raises(Refused, match=f"chmod 600 {path}"):
        ensure_token(path)


def test_an_empty_token_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.touch(0o600)
    with pytest.raises(Refused, match="has 0 characters, but at least 16 are needed"):
        ensure_token(path)
