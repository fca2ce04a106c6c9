"""Who may change a task of the autotuner."""

from corral.core.access.caller import Caller
from corral.core.access.permissions import explain_scope
from corral.core.model.errors import Forbidden
from corral.core.model.tuning.tuning_task import TuningTask


def may_change_task(caller: Caller, task: TuningTask) -> None:
    """Raises Forbidden unless it is the caller's own, or the caller is an administrator."""
    if not caller.admin and caller.user != task.user:
        explain_scope(caller)
        raise Forbidden(f"task {task.id} is {task.user}'s; only {task.user} or an administrator may change it")


def may_see_server_log(caller: Caller, owner: str) -> bool:
    """Whether the caller reads the logs of the servers of a task of `owner`, as those of any job."""
    return caller.admin or caller.user == owner


def may_see_environment(caller: Caller, task: TuningTask) -> bool:
    """Whether the caller sees the variables of a task's servers, which may be secrets."""
    return caller.admin or caller.overseer or caller.user == task.user
