from dataclasses import replace

import pytest

from corral.core.access.caller import Caller
from corral.core.access.token_permissions import last_moment, may_make, may_revoke, visible
from corral.core.model.errors import Forbidden, NotFound
from corral.core.model.token import Token, TokenScope

ALICE = Caller("alice", 1000)
ROOT = Caller("root", 0, admin=True, overseer=True)
OF_ALICE = Token("3", "alice", 1000, TokenScope.SUBMIT, 0.0, "alice", expires_at=100.0)
OF_ROOT = Token("4", "root", 0, TokenScope.SUBMIT, 0.0, "root")


def make(caller: Caller, user: str, scope: TokenScope, *, only_user: str | None = None) -> None:
    may_make(caller, user=user, scope=scope, user_is_admin=user == "root", only_user=only_user)


def test_everybody_makes_tokens_for_themselves_and_an_administrator_for_all() -> None:
    for scope in (TokenScope.READ, TokenScope.SUBMIT):
        make(ALICE, "alice", scope)
        make(ROOT, "alice", scope)
    make(ROOT, "root", TokenScope.ADMIN)
    with pytest.raises(Forbidden, match="only an administrator may create tokens for bob"):
        make(ALICE, "bob", TokenScope.READ)


@pytest.mark.parametrize("caller", [ALICE, ROOT])
def test_the_scope_of_an_administrator_is_for_administrators(caller: Caller) -> None:
    with pytest.raises(Forbidden, match="alice is not one; use scope submit"):
        make(caller, "alice", TokenScope.ADMIN)


@pytest.mark.parametrize("holds", list(TokenScope))
def test_with_a_token_nobody_makes_one_of_a_larger_scope(holds: TokenScope) -> None:
    root = replace(ROOT, admin=holds is TokenScope.ADMIN, token=replace(OF_ROOT, scope=holds))
    for wanted in TokenScope:
        if holds.covers(wanted):
            make(root, "root", wanted)
        else:
            with pytest.raises(Forbidden, match=f"needs a token of scope {wanted}, and token 4 has scope {holds}"):
                make(root, "root", wanted)


def test_an_administrator_with_a_smaller_token_makes_none_for_others() -> None:
    with pytest.raises(Forbidden, match="only an administrator"):
        make(replace(ROOT, admin=False, token=OF_ROOT), "alice", TokenScope.READ)


def test_a_server_that_runs_jobs_as_one_user_has_tokens_of_that_user_only() -> None:
    make(ROOT, "alice", TokenScope.SUBMIT, only_user="alice")
    for user in ("root", "bob"):
        with pytest.raises(Forbidden, match="runs jobs as alice only"):
            make(ROOT, user, TokenScope.READ, only_user="alice")


@pytest.mark.parametrize(("asked", "until"), [(None, 100.0), (200.0, 100.0), (50.0, 50.0)])
def test_a_token_lives_no_longer_than_the_one_it_was_made_with(asked: float | None, until: float) -> None:
    assert last_moment(replace(ALICE, token=OF_ALICE), asked) == until
    assert last_moment(ALICE, asked) == asked


def test_tokens_of_others_are_there_for_administrators_only() -> None:
    bob = Caller("bob", 1001)
    assert visible(ALICE, OF_ALICE)
    assert visible(ROOT, OF_ALICE)
    assert visible(replace(ROOT, admin=False, token=OF_ROOT), OF_ALICE)
    assert not visible(bob, OF_ALICE)
    assert may_revoke(ALICE, OF_ALICE, "3") is may_revoke(ROOT, OF_ALICE, "3") is OF_ALICE
    for caller, token in ((bob, OF_ALICE), (bob, None), (replace(ROOT, admin=False, token=OF_ROOT), OF_ALICE)):
        with pytest.raises(NotFound, match="you have no token 3"):
            may_revoke(caller, token, "3")
