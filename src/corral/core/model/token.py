"""Access tokens: the holder of a token's secret may act as one user, within a scope and until a time."""

from dataclasses import dataclass
from enum import StrEnum


class TokenScope(StrEnum):
    """The rights of a token's holder. Each scope includes those before it: read, work, administer."""

    READ = "read"
    SUBMIT = "submit"
    ADMIN = "admin"

    def covers(self, other: "TokenScope") -> bool:
        """Whether this scope includes `other`."""
        order = list(TokenScope)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret. Times are Unix seconds.

    Attributes:
        uid: the user's uid when it was made: a later user of the same name is another person.
        created_by: the user who made it.
        parent: the id of the token with which it was made, None if there was none. This token ends with its parent.
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
        """Whether the token is valid at `now`, in Unix seconds."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)
