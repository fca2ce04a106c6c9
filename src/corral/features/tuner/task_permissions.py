"""The rules who may change a task of the autotuner, and see its logs and variables."""

from corral.core.access.caller import Caller
from corral.core.access.permissions import explain_scope
from corral.core.model.errors import Forbidden
from corral.features.tuner.model.tuning_task import TuningTask


def may_change_task(caller: Caller, task: TuningTask) -> None:
    """Raise Forbidden unless the task is the caller's own, or the caller is an administrator."""
    if not caller.admin and caller.user != task.user:
        explain_scope(caller)
        raise Forbidden(f"task {task.id} is {task.user}'s; only {task.user} or an administrator may change it")


def may_see_server_log(caller: Caller, owner: str) -> bool:
    """Whether the caller may read the server logs of a task of `owner`, by the rule for logs of jobs."""
    return caller.admin or caller.user == owner


def may_see_environment(caller: Caller, task: TuningTask) -> bool:
    """Whether the caller may see the variables of a task's servers, which may be secrets."""
    return caller.admin or caller.overseer or caller.user == task.user
