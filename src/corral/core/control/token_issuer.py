"""Creates, lists and revokes tokens for TCP. A secret is sent once; only its digest is kept."""

import logging
import secrets
from collections.abc import Callable

from corral.clock import Clock
from corral.core.access.caller import Caller
from corral.core.access.token_digest import digest_of
from corral.core.access.token_permissions import last_moment, may_make, may_revoke, visible
from corral.core.control.querying.wall_times import in_wall_time
from corral.core.model.answers.tokens import MadeToken, TokenRow
from corral.core.model.errors import Refused
from corral.core.model.token import Token, TokenScope
from corral.core.ports.ledger import TokenStore

PREFIX = "corral_"
"""The beginning of every secret, so that leaked secrets can be found. 64 hexadecimal digits follow."""

LONGEST_S = 10 * 365 * 86400.0
MOST_LIVE = 100
"""The most valid tokens of one user."""

log = logging.getLogger(__name__)


class TokenIssuer:
    """Creates, lists and revokes tokens for the users of this machine.

    `account` returns the name and uid of a user, None if there is none. `is_admin` returns whether a uid is an
    administrator of this server. `only_user` is the only user for whom it runs jobs, None for all users.
    """

    def __init__(
        self,
        tokens: TokenStore,
        clock: Clock,
        *,
        account: Callable[[str], tuple[str, int] | None],
        is_admin: Callable[[int], bool],
        only_user: str | None,
    ) -> None:
        self._tokens = tokens
        self._clock = clock
        self._account = account
        self._is_admin = is_admin
        self._only_user = only_user

    def make(
        self,
        user: str | None,
        scope: TokenScope,
        expires_in_s: float | None,
        caller: Caller,
        *,
        digest: Callable[[str], str] | None = None,
    ) -> MadeToken:
        """Create a token with its secret for `user` (None: the caller), valid for `expires_in_s` (None: until revoked).

        With a `digest` of its own it is the token of a session: its secret is valid only in a cookie.

        Raises Refused, Forbidden, LedgerFailed.
        """
        if expires_in_s is not None and not 1 <= expires_in_s <= LONGEST_S:
            raise Refused(
                "expires: a token must be valid for at least one second and at most ten years, or for ever",
                field="expires",
            )
        named = caller.user if user is None else user
        account = self._account(named)
        # A caller who may not create tokens for others gets that error first, and does not learn which users exist.
        if account is None and (caller.admin or named == caller.user):
            raise Refused(f"there is no user {named!r:.80} on this machine", field="user")
        name, uid = account or (named, -1)
        now = self._clock.now()
        may_make(caller, user=name, scope=scope, user_is_admin=self._is_admin(uid), only_user=self._only_user)
        expires_at = last_moment(caller, None if expires_in_s is None else now + expires_in_s)
        if sum(token.user == name and token.live(now) for token in self._tokens.all()) >= MOST_LIVE:
            raise Refused(f"{name} already has {MOST_LIVE} tokens, the limit; revoke one with `corral token revoke ID`")
        secret = PREFIX + secrets.token_hex(32)
        parent = None if caller.token is None else caller.token.id
        token = Token("", name, uid, scope, now, caller.user, expires_at, parent=parent)
        token = self._tokens.add(token, (digest or digest_of)(secret))
        if any(one.id == parent and one.revoked_at is not None for one in self._tokens.all()):
            self._tokens.revoke([token.id], now)  # the parent was revoked after the caller presented it
        log.info("token %s with scope %s created for %s by %s", token.id, scope, name, caller.user)
        return in_wall_time(MadeToken(token.id, secret, name, scope, expires_at), self._clock)

    def listed(self, caller: Caller, *, all: bool) -> list[TokenRow]:
        """Return the caller's tokens; for administrators those of all users. With `all`, also return invalid ones."""
        now = self._clock.now()
        tokens = [token for token in self._tokens.all() if visible(caller, token) and (all or token.live(now))]
        return in_wall_time([_row(token, now) for token in tokens], self._clock)

    def revoke(self, token_id: str, caller: Caller) -> tuple[str, ...]:
        """Revoke the token and all tokens created with it, at once. Return their ids. Idempotent."""
        tokens = self._tokens.all()
        token = may_revoke(caller, next((one for one in tokens if one.id == token_id), None), token_id)
        revoked = [token.id]
        # The oldest is first: a token precedes those that were created with it.
        for one in tokens:
            if one.parent in revoked:
                revoked.append(one.id)
        self._tokens.revoke(revoked, self._clock.now())
        log.info("token %s revoked by %s", ", ".join(revoked), caller.user)
        return tuple(revoked)


def _row(token: Token, now: float) -> TokenRow:
    state = "revoked" if token.revoked_at is not None else "good" if token.live(now) else "expired"
    return TokenRow(
        id=token.id,
        user=token.user,
        scope=token.scope,
        state=state,
        created_at=token.created_at,
        created_by=token.created_by,
        expires_at=token.expires_at,
        revoked_at=token.revoked_at,
        last_used_at=token.last_used_at,
    )
