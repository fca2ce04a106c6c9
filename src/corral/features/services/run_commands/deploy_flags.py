"""The service that the flags of `corral deploy` request: part by part, or as an experiment of a task was."""

from collections.abc import Iterable
from dataclasses import replace

from corral.cli.jobs.flags import env_variable
from corral.cli.screen import say, write_lines
from corral.client import Client
from corral.core.model.errors import Conflict, Forbidden, Refused
from corral.features.services.commands import DeployCommand
from corral.features.services.parameters import parameters_from
from corral.features.services.selection import NodeSelection
from corral.features.services.service_wanted import MOUNT_PATH, ModelClaim, ServiceWanted

_NEEDED = ("name", "via", "model", "runtime")
_OF_TASK = ("via", "model", "runtime", "param", "gpus", "env", "claim", "mount_path")


def service_of_flags(given: DeployCommand) -> tuple[str, ServiceWanted]:
    """Return the operator's word and the service; "" is the namespace of the context. Raises Refused."""
    if given.experiment is not None:
        raise Refused("--experiment is for an experiment of a task; name the task with --from", field="--experiment")
    for needed in _NEEDED:
        if getattr(given, needed) is None:
            word = "NAME" if needed == "name" else _flag(needed)
            raise Refused(f"{word} is missing; give it, or deploy the winner of a task with --from", field=word)
    name, via, model, runtime = (str(getattr(given, one)) for one in _NEEDED)
    wanted = ServiceWanted(
        name,
        given.flags.namespace or "",
        model,
        runtime,
        parameters_from(given.param or []),
        gpus=given.gpus,
        env=_env(given.env or []),
        claim=_claim(given),
        queue=given.queue,
        project=given.project,
    )
    return via, wanted


def service_of_task(given: DeployCommand) -> tuple[str, ServiceWanted, NodeSelection]:
    """Return the same for the best experiment of a task, or another one, and the choice of nodes of the task.

    Raises Refused for flags that contradict the task. Where nothing can be deployed, it prints the command that serves
    the model, and raises Conflict or Forbidden.
    """
    assert given.from_task is not None
    for name in _OF_TASK:
        if getattr(given, name) is not None:
            flag = _flag(name)
            raise Refused(f"{flag} is given, and the experiment has its own; leave out {flag}, or --from", field=flag)
    with Client() as client:
        plan = client.experiments.serving(given.from_task, given.experiment)
        status = client.tasks.get(given.from_task).task.status
    if given.experiment is None and status == "running":
        say(f"task {plan.task_id} is still running: experiment {plan.experiment_id} is its best so far")
    if plan.service is None:
        write_lines(plan.command)
        raise Conflict(
            f"nothing is deployed: experiment {plan.experiment_id} of task {plan.task_id} was a job on Corral's GPUs"
            f" (deployment_mode {plan.deployment_mode}), not a service of a cluster. The command on standard output"
            " serves the model as it did"
        )
    if plan.env_withheld:
        write_lines(plan.command)
        raise Forbidden(
            f"nothing is deployed: the server of experiment {plan.experiment_id} of task {plan.task_id} had variables"
            " that only the task's user and administrators may see. The command on standard output serves the model"
            " without them; give them with --env"
        )
    service = plan.service
    wanted = replace(
        service,
        name=given.name or service.name,
        queue=given.queue or service.queue,
        project=given.project or service.project,
    )
    return str(plan.deployment_mode), wanted, plan.selection


def _claim(given: DeployCommand) -> ModelClaim | None:
    if given.claim is None:
        if given.mount_path is not None:
            raise Refused("--mount-path is the place of a claim; name the claim with --claim", field="--mount-path")
        return None
    if given.mount_path is not None and given.via == "kserve":
        raise Refused("--mount-path: KServe mounts a claim at /mnt/models; leave it out", field="--mount-path")
    name, _, directory = given.claim.partition("/")
    return ModelClaim(name, directory, given.mount_path or MOUNT_PATH)


def _env(given: Iterable[str]) -> dict[str, str]:
    return dict(map(env_variable, given))


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
