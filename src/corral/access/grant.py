"""Who may make which token, and see and revoke it."""

from corral.access.caller import Caller, must_reach
from corral.model.errors import Forbidden, NotFound
from corral.model.token import Token, TokenScope


def may_make(caller: Caller, *, user: str, scope: TokenScope, user_is_admin: bool, only_user: str | None) -> None:
    """Raises Forbidden unless `caller` may make a token of `scope` for `user`.

    Nobody gives more than they have: neither another user's rights, nor a larger scope than that of the token they
    show. `only_user` is whom a server that is not root's works for.
    """
    if only_user is not None and user != only_user:
        raise Forbidden(
            f"this server runs jobs as {only_user} only, so its tokens are {only_user}'s; {user} needs none"
        )
    if not caller.admin and user != caller.user:
        raise Forbidden(f"you are {caller.user}; only an administrator makes tokens for {user}")
    must_reach(caller, scope)
    if scope is TokenScope.ADMIN and not (caller.admin and user_is_admin):
        raise Forbidden(
            f"scope admin is for administrators, and {user} is none; scope submit is all that {user} may do"
        )


def last_moment(caller: Caller, expires_at: float | None) -> float | None:
    """When a token that should expire then (None: never) does: no later than the one that the caller shows."""
    given = None if caller.token is None else caller.token.expires_at
    if given is None:
        return expires_at
    return given if expires_at is None else min(given, expires_at)


def visible(caller: Caller, token: Token) -> bool:
    """Whether the caller is told of the token."""
    return caller.admin or caller.overseer or token.user == caller.user


def may_revoke(caller: Caller, token: Token | None, token_id: str) -> Token:
    """The token, which the caller may revoke. Raises NotFound for one that is not there, or not there for them."""
    if token is None or not (caller.admin or token.user == caller.user):
        raise NotFound(f"you have no token {token_id}; `corral token list` lists those you have", field="id")
    return token
