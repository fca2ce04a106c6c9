"""The rules for a caller's permissions: who may change a job, read its log or act as an administrator."""

from corral.core.access.caller import Caller
from corral.core.model.errors import Forbidden
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.token import TokenScope
from corral.core.model.units import format_duration


def must_reach(caller: Caller, scope: TokenScope) -> None:
    """Raise Forbidden if the caller's token does not have this scope."""
    if caller.token is not None and not caller.scope.covers(scope):
        raise Forbidden(
            f"this needs a token of scope {scope}, and token {caller.token.id} has scope {caller.scope}; "
            f"create one on the server's machine: corral token create --scope {scope}"
        )


def may_change(caller: Caller, job: Job) -> None:
    """Raise Forbidden unless the job is the caller's own or the caller is an administrator."""
    if not caller.admin and caller.user != job.spec.user:
        explain_scope(caller)
        raise Forbidden(
            f"job {job.id} belongs to {job.spec.user}; only {job.spec.user} or an administrator may change it"
        )


def may_release(caller: Caller, job: Job) -> None:
    """Raise Forbidden if the server holds the job and the caller is no administrator."""
    if job.held_because is not None and not caller.admin:
        explain_scope(caller)
        raise Forbidden(f"job {job.id} is held because {job.held_because}; only an administrator may release it")


def may_give_time(caller: Caller, job: Job, time_limit_s: float, most_s: float | None) -> None:
    """Raise Forbidden if the job's own user asks for a longer time limit than they may give it.

    A user may shorten the limit at any time. While the job waits, they may lengthen it up to the site's `most_s`
    (seconds, None: no limit): they could also cancel the job and submit it again. An administrator may give any limit.
    """
    has_s = job.spec.time_limit_s
    if caller.admin or (has_s is not None and time_limit_s <= has_s):
        return
    if job.phase is Phase.PENDING:
        if most_s is None or time_limit_s <= most_s:
            return
        explain_scope(caller)
        raise Forbidden(
            f"a time limit of {format_duration(time_limit_s)} is more than the {format_duration(most_s)} that this "
            f"site allows; ask for less, or ask an administrator to lengthen the limit of job {job.id}",
            field="time_limit_s",
        )
    if has_s is not None:
        explain_scope(caller)
        raise Forbidden(
            f"job {job.id} is {job.phase} with a time limit of {format_duration(has_s)}, which you may only shorten; "
            f"only an administrator may lengthen it to {format_duration(time_limit_s)}",
            field="time_limit_s",
        )


def can_read_log(caller: Caller, job: Job) -> bool:
    """Whether the job is the caller's own or the caller sees everything."""
    return caller.admin or caller.overseer or caller.user == job.spec.user


def may_read_log(caller: Caller, job: Job) -> None:
    """Raise Forbidden unless `can_read_log`."""
    if not can_read_log(caller, job):
        raise Forbidden(f"only {job.spec.user} or an administrator may read the log of job {job.id}")


def must_be_admin(caller: Caller, action: str) -> None:
    """Raise Forbidden unless the caller is an administrator."""
    if not caller.admin:
        explain_scope(caller)
        raise Forbidden(f"{action} is for administrators (root or the user who runs the server); you are {caller.user}")


def explain_scope(caller: Caller) -> None:
    """Raise Forbidden for an administrator whose token has a smaller scope. The message names the missing scope."""
    if caller.overseer:
        must_reach(caller, TokenScope.ADMIN)
