"""A token: who has its secret may act as one user, within a scope and until a time."""

from dataclasses import dataclass
from enum import StrEnum


class TokenScope(StrEnum):
    """How much a token lets its holder do, each with what the one before lets: look, work, administer."""

    READ = "read"
    SUBMIT = "submit"
    ADMIN = "admin"

    def covers(self, other: "TokenScope") -> bool:
        """Whether this lets do all that `other` does."""
        order = list(TokenScope)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token, apart from its secret. Times are Unix seconds.

    Attributes:
        uid: of the user when it was made; a later user of the same name is somebody else.
        created_by: the user who made it.
        parent: the id of the token that it was made with; it ends with that one. None when made without.
    """

    id: str
    user: str
    uid: int
    scope: TokenScope
    created_at: float
    created_by: str
    expires_at: float | None = None
    revoked_at: float | None = None
    last_used_at: float | None = None
    parent: str | None = None

    def live(self, now: float) -> bool:
        """Whether it is still good for anything."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)
