"""The way to serve a model as one experiment did: the command for a person, and the model service. Pure."""

from corral.config.tuner import TunerSettings
from corral.features.tuner.answers import ExperimentRow, TaskDetail
from corral.features.tuner.deployments.modes import mode_of
from corral.features.tuner.engines.gpu_estimate import gpu_estimate
from corral.features.tuner.engines.inference_engine import engine_on_site
from corral.features.tuner.finding_answers import ServingPlan

_MOST_GPUS = 4096


def serving_plan(detail: TaskDetail, one: ExperimentRow, site: TunerSettings) -> ServingPlan:
    """Return the plan by an experiment of a task."""
    spec, gpus = detail.config, gpus_of(detail, one)
    mode, engine = mode_of(spec.deployment_mode, site), engine_on_site(spec, site)
    return ServingPlan(
        task_id=one.task_id,
        experiment_id=one.experiment_id,
        deployment_mode=spec.deployment_mode,
        gpus=gpus,
        command=mode.serving_command(spec, engine, one.parameters, gpus),
        service=mode.service(spec, engine, one.parameters, gpus),
    )


def serving_command(detail: TaskDetail, one: ExperimentRow, site: TunerSettings) -> str:
    """Return the shell command that serves the model as an experiment did."""
    return serving_plan(detail, one, site).command


def gpus_of(detail: TaskDetail, one: ExperimentRow) -> int:
    """Return the number of GPUs that an experiment had; before it had any, the number that it needs."""
    had = (one.gpu_info or {}).get("count")
    if type(had) is int and 1 <= had <= _MOST_GPUS:
        return had
    return gpu_estimate(detail.config.model.id_or_path, one.parameters).gpus
