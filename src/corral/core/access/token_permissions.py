"""The rules for tokens: who may create, see and revoke them."""

from corral.core.access.caller import Caller
from corral.core.access.permissions import must_reach
from corral.core.model.errors import Forbidden, NotFound
from corral.core.model.token import Token, TokenScope


def may_make(caller: Caller, *, user: str, scope: TokenScope, user_is_admin: bool, only_user: str | None) -> None:
    """Raise Forbidden unless `caller` may create a token of `scope` for `user`.

    A caller cannot give more than they have: not another user's rights, and no larger scope than their own token has.
    `only_user` is the only user whose jobs this server runs; None for a server that runs as root.
    """
    if only_user is not None and user != only_user:
        raise Forbidden(
            f"this server runs jobs as {only_user} only, so it has tokens for {only_user} only, not for {user}"
        )
    if not caller.admin and user != caller.user:
        raise Forbidden(f"you are {caller.user}; only an administrator may create tokens for {user}")
    must_reach(caller, scope)
    if scope is TokenScope.ADMIN and not (caller.admin and user_is_admin):
        raise Forbidden(f"scope admin is for administrators, and {user} is not one; use scope submit")


def last_moment(caller: Caller, expires_at: float | None) -> float | None:
    """Return the time (Unix seconds, None: never) at which a new token expires: `expires_at`, but no later than the
    token that the caller uses.
    """
    given = None if caller.token is None else caller.token.expires_at
    if given is None:
        return expires_at
    return given if expires_at is None else min(given, expires_at)


def visible(caller: Caller, token: Token) -> bool:
    """Whether the caller may see the token."""
    return caller.admin or caller.overseer or token.user == caller.user


def may_revoke(caller: Caller, token: Token | None, token_id: str) -> Token:
    """Return the token if the caller may revoke it. Raises NotFound if there is none, or if they may not revoke it."""
    if token is None or not (caller.admin or token.user == caller.user):
        raise NotFound(f"you have no token {token_id}; `corral token list` shows yours", field="id")
    return token
