"""Who asks, and what they may do."""

from dataclasses import dataclass

from corral.model.errors import Forbidden
from corral.model.job import Job
from corral.model.token import Token, TokenScope


@dataclass(frozen=True, slots=True)
class Caller:
    """Someone who asks, as the kernel or a token names them.

    Attributes:
        admin: root or the server's own user, who may do everything; not with a token of a smaller scope.
        overseer: root or the server's own user, whatever their token lets them change: they may see everything.
        token: what they showed; None for whom the kernel names, and for the holder of the server's own token.
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
        """What their token lets them do; all for who needs none."""
        return TokenScope.ADMIN if self.token is None else self.token.scope


def must_reach(caller: Caller, scope: TokenScope) -> None:
    """Raises Forbidden when the caller's token is of a smaller scope."""
    if caller.token is not None and not caller.scope.covers(scope):
        raise Forbidden(
            f"this needs a token of scope {scope}, and token {caller.token.id} has scope {caller.scope}; "
            f"make one where the server runs: corral token create --scope {scope}"
        )


def may_change(caller: Caller, job: Job) -> None:
    """Raises Forbidden unless the job is the caller's own or the caller is an administrator."""
    if not caller.admin and caller.user != job.spec.user:
        _explain_scope(caller)
        raise Forbidden(
            f"job {job.id} belongs to {job.spec.user}; only {job.spec.user} or an administrator may change it"
        )


def may_read_log(caller: Caller, job: Job) -> None:
    """Raises Forbidden unless the job is the caller's own or the caller sees everything."""
    if not (caller.admin or caller.overseer or caller.user == job.spec.user):
        raise Forbidden(f"the log of job {job.id} is {job.spec.user}'s; ask them, or an administrator")


def must_be_admin(caller: Caller, deed: str) -> None:
    """Raises Forbidden unless the caller is an administrator."""
    if not caller.admin:
        _explain_scope(caller)
        raise Forbidden(
            f"{deed} is for administrators (root, or the user whose server this is), and you are {caller.user}"
        )


def _explain_scope(caller: Caller) -> None:
    """Raises Forbidden for an administrator whose token lets them do less."""
    if caller.overseer:
        must_reach(caller, TokenScope.ADMIN)
