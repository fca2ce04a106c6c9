"""The caller of a request."""

from dataclasses import dataclass

from corral.core.model.token import Token, TokenScope


@dataclass(frozen=True, slots=True)
class Caller:
    """The user who makes a request, as named by the kernel or by a token.

    Attributes:
        admin: root or the server's own user, who may do everything, unless their token has a smaller scope.
        overseer: root or the server's own user, who may see everything, whatever the scope of their token.
        token: the token they used; None if the kernel named them, and for the server's own token.
    """

    user: str
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    admin: bool = False
    overseer: bool = False
    token: Token | None = None

    @property
    def scope(self) -> TokenScope:
        """The scope of their token; ADMIN without a token."""
        return TokenScope.ADMIN if self.token is None else self.token.scope
