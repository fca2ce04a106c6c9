import asyncio
import grp
import os
import pwd
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from corral.access.caller import Caller
from corral.api.auth import Authenticator, ensure_token, look_up
from corral.api.errors import Unauthenticated
from corral.api.peer import Peer
from corral.model.errors import Forbidden, Refused

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
    assert found == Caller("root", 0, 0, tuple(sorted(os.getgrouplist("root", 0))), True)


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
    with pytest.raises(Forbidden, match="runs jobs as nobody only; ask an administrator"):
        caller(server, {"peer": Peer(1, 54321, 54321)})


def test_a_connection_that_does_not_say_who_is_there_is_denied() -> None:
    with pytest.raises(Unauthenticated, match="cannot tell who asks"):
        caller(Authenticator(token=TOKEN), {}, f"Bearer {TOKEN}")


def test_the_holder_of_the_token_is_the_servers_own_user() -> None:
    found = caller(Authenticator(token=TOKEN), {"peer": None}, f"bearer {TOKEN}")
    assert found.admin
    assert found.uid == os.geteuid()


@pytest.mark.parametrize(
    ("authorization", "said"),
    [
        (None, "Authorization: Bearer TOKEN"),
        ("", "set CORRAL_TOKEN to what the file"),
        ("Basic abc", "Authorization: Bearer TOKEN"),
        ("Bearer", "not the token"),
        (f"Bearer {TOKEN}x", "not the token"),
        (f"Bearer {TOKEN[:-1]}", "not the token"),
        ("Bearer \xff\xfe", "not the token"),
    ],
)
def test_on_tcp_nobody_is_answered_without_the_token(authorization: str | None, said: str) -> None:
    with pytest.raises(Unauthenticated, match=said):
        caller(Authenticator(token=TOKEN), {"peer": None}, authorization)


def test_a_server_without_a_token_answers_nobody_on_tcp() -> None:
    with pytest.raises(Unauthenticated, match="no token"):
        caller(Authenticator(token=None), {"peer": None}, "Bearer ")


def test_the_token_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = ensure_token(path)
    assert len(token) >= 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert ensure_token(path) == token
    assert [entry.name for entry in tmp_path.iterdir()] == ["token"]


def test_two_homes_have_different_tokens(tmp_path: Path) -> None:
    assert ensure_token(tmp_path / "a") != ensure_token(tmp_path / "b")


def test_a_token_that_others_may_read_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "token"
    ensure_token(path)
    path.chmod(0o640)
    with pytest.raises(Refused, match=f"chmod 600 {path}"):
        ensure_token(path)


def test_an_empty_token_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.touch(0o600)
    with pytest.raises(Refused, match="has 0 characters and must have at least 16"):
        ensure_token(path)
