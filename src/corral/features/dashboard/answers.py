"""Answers about the pages and the sessions of browsers."""

from dataclasses import dataclass

from corral.core.model.token import TokenScope


@dataclass(frozen=True, slots=True)
class PageLink:
    """A link that opens the pages once, within `valid_s` seconds."""

    url: str
    valid_s: float


@dataclass(frozen=True, slots=True)
class PageSession:
    """Who the caller is.

    Attributes:
        admin: may do everything; overseer: may see everything.
        expires_at: when their token ends, None for never and for those without one.
    """

    user: str
    admin: bool
    overseer: bool
    scope: TokenScope
    expires_at: float | None
