"""The way to serve a model as one experiment did: the command for a person, and the model service. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from corral.config.tuner import TunerSettings
from corral.core.model.errors import Refused
from corral.core.model.serving.parallelism import MOST_RANKS, world_size
from corral.features.tuner.answers import ExperimentRow, TaskDetail
from corral.features.tuner.deployments.deployment import WantedGpus
from corral.features.tuner.deployments.modes import mode_of
from corral.features.tuner.engines.inference_engine import engine_of, engine_on_site
from corral.features.tuner.engines.power_limit import power_limit_w_of
from corral.features.tuner.finding_answers import ServingPlan
from corral.features.tuner.measuring.gpu_records import members_in, models_in
from corral.features.tuner.tasks.asked_gpus import asked_gpus


def serving_plan(detail: TaskDetail, one: ExperimentRow, site: TunerSettings) -> ServingPlan:
    """Return the plan by an experiment of a task."""
    spec, gpus = detail.config, gpus_of(detail, one)
    mode, engine = mode_of(spec.deployment_mode, site), engine_on_site(spec, site)
    return ServingPlan(
        task_id=one.task_id,
        experiment_id=one.experiment_id,
        deployment_mode=spec.deployment_mode,
        gpus=gpus.used,
        command=mode.serving_command(spec, engine, one.parameters, gpus),
        service=mode.service(spec, engine, one.parameters, gpus),
        selection=spec.gpu_selection,
    )


def serving_command(detail: TaskDetail, one: ExperimentRow, site: TunerSettings) -> str:
    """Return the shell command that serves the model as an experiment did."""
    return serving_plan(detail, one, site).command


def gpus_of(detail: TaskDetail, one: ExperimentRow) -> WantedGpus:
    """Return the GPUs to ask for: by the conditions of the task, as many and of the models that the experiment had.

    Anybody with access to the task may have written the record of the experiment.
    """
    asked = asked_gpus(detail.config)
    used = (one.gpu_info or {}).get("world_size")
    if type(used) is not int or not 1 <= used <= MOST_RANKS:
        used = world_size(engine_of(detail.config).name, one.parameters)
    members = members_in(one.gpu_info)
    members = members if used % members == 0 else 1
    request = replace(
        asked.request,
        devices=used // members,
        gang_size=members,
        spread=members > 1,
        models=models_in(one.gpu_info) or asked.request.models,
        power_limit_w=_power_limit_w(one.parameters),
        device_uuids=_devices(asked.request.device_uuids, used, one.gpu_info or {}),
    )
    return WantedGpus(used, request, asked.exclusive)


def _power_limit_w(parameters: Mapping[str, Any]) -> int | None:
    try:
        return power_limit_w_of(parameters)
    except Refused:
        return None


def _devices(named: tuple[str, ...], used: int, gpu_info: Mapping[str, Any]) -> tuple[str, ...]:
    """Return those of the named devices that the experiment had; the first ones if they are not recorded."""
    had = gpu_info.get("device_ids") or ()
    found = tuple(uuid for uuid in named if uuid in had)
    return found if len(found) == used else named[:used]
