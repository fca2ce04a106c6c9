"""Answers about tokens for TCP."""

from dataclasses import dataclass

from corral.core.model.token import TokenScope


@dataclass(frozen=True, slots=True)
class MadeToken:
    """A token that was just made: the only time that its secret is shown. `expires_at` None is never."""

    id: str
    token: str
    user: str
    scope: TokenScope
    expires_at: float | None


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token as `token list` shows it. `state` is good, expired or revoked; `last_used_at` None is never."""

    id: str
    user: str = ""
    scope: TokenScope = TokenScope.READ
    state: str = ""
    created_at: float | None = None
    created_by: str = ""
    expires_at: float | None = None
    revoked_at: float | None = None
    last_used_at: float | None = None
