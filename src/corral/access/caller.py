"""Who asks, and what they may do."""

from dataclasses import dataclass

from corral.model.errors import Forbidden
from corral.model.job import Job


@dataclass(frozen=True, slots=True)
class Caller:
    """Someone who asks, as the kernel or a token names them.

    `admin` is root, the server's own user, or the holder of its token.
    """

    user: str
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    admin: bool = False


def may_change(caller: Caller, job: Job) -> None:
    """Raises Forbidden unless the job is the caller's own or the caller is an administrator."""
    if not caller.admin and caller.user != job.spec.user:
        raise Forbidden(
            f"job {job.id} belongs to {job.spec.user}; only {job.spec.user} or an administrator may change it"
        )


def must_be_admin(caller: Caller, deed: str) -> None:
    """Raises Forbidden unless the caller is an administrator."""
    if not caller.admin:
        raise Forbidden(
            f"{deed} is for administrators (root, or the user whose server this is), and you are {caller.user}"
        )
