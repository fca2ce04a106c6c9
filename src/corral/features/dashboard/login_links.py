"""Links that begin a session. Each works once and expires soon."""

import secrets
import time
from collections.abc import Callable

from corral.core.access.caller import Caller
from corral.core.access.token_digest import digest_of
from corral.core.model.errors import Conflict

VALID_S = 120.0
"""The validity of a link: enough time to copy it to a browser elsewhere."""

MOST_OF_USER = 20
"""The most unopened links of one user."""


class LoginLinks:
    """Makes codes for callers, and returns the caller of each code once. Used on the event loop alone."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._callers: dict[str, tuple[float, Caller]] = {}

    def make(self, caller: Caller) -> str:
        """Make a new code for this caller. Raises Conflict if the user has too many unopened links."""
        now = self._monotonic()
        self._callers = {digest: made for digest, made in self._callers.items() if now < made[0]}
        if sum(one.user == caller.user for _, one in self._callers.values()) >= MOST_OF_USER:
            raise Conflict(
                f"{caller.user} has {MOST_OF_USER} unopened links, the limit; each expires after {VALID_S:.0f} "
                "s: open one, or try again later"
            )
        code = secrets.token_urlsafe(32)
        self._callers[digest_of(code)] = now + VALID_S, caller
        return code

    def take(self, code: str) -> Caller | None:
        """Return the caller of a code at its first use, while it is valid; else None."""
        until, caller = self._callers.pop(digest_of(code), (0.0, None))
        return caller if self._monotonic() < until else None
