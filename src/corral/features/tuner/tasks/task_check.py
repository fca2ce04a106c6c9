"""Checks a task before it is stored: its space, objective, limits, traffic and inference server."""

from dataclasses import replace

from corral.config.tuner import TunerSettings
from corral.core.control.submitting.site_rules import refuse_project, refuse_queue
from corral.core.control.submitting.submission_checks import check
from corral.core.model.errors import Refused
from corral.core.model.jobs.submission import Submission
from corral.core.model.view import View
from corral.features.tuner.deployments.modes import mode_of
from corral.features.tuner.engines.inference_engine import engine_on_site
from corral.features.tuner.engines.power_limit import check_power_limits, is_power_limit
from corral.features.tuner.measuring.generators import choose_generator
from corral.features.tuner.model.tuning_spec import DeploymentMode, TuningSpec
from corral.features.tuner.search.named_once import check_named_once


def check_task(spec: TuningSpec, site: TunerSettings) -> tuple[str, ...]:
    """Return notes for the user. Raises Refused, naming the field and the accepted values."""
    # They need numpy and the client, which a server without tasks does not load.
    from corral.features.tuner.tasks.asked_gpus import asked_gpus
    from corral.features.tuner.tasks.task_problem import problem_of

    check_named_once(spec)
    _check_makes_nothing(spec)
    engine = engine_on_site(spec, site)
    mode_of(spec.deployment_mode, site).check(spec, engine)
    asked_gpus(spec)
    _check_power_limit(spec, mode_of(spec.deployment_mode, site).chooses_gpus)
    check(Submission(command=("serve",), env=spec.env, queue=spec.queue, project=spec.project))
    # Only the user's process can see whether the model's directory has a tokenizer.
    tokenizer = spec.benchmark.model_tokenizer or spec.model.id_or_path
    choose_generator(replace(spec.benchmark, model_tokenizer=tokenizer))
    return problem_of(spec, engine).notes


def _check_power_limit(spec: TuningSpec, chooses_gpus: bool) -> None:
    from corral.features.tuner.search.space import read_space

    for parameter in read_space({"parameters": spec.parameters} if spec.parameters else {}).parameters:
        if not is_power_limit(parameter.name):
            continue
        if not chooses_gpus:
            field = f"parameters.{parameter.name}"
            raise Refused(f"{field}: Corral limits no GPUs of pods; leave it out", field=field)
        check_power_limits(parameter.steps)


def check_place(spec: TuningSpec, view: View, user: str) -> None:
    """Raise Refused for a queue or a project that the site does not have, and Forbidden for one of others.

    Model services have neither where no server of Corral binds their pods.
    """
    if spec.deployment_mode in (DeploymentMode.PROCESS, DeploymentMode.DOCKER):
        refuse_queue(view, spec.queue)
        refuse_project(view, spec.project, user)


def _check_makes_nothing(spec: TuningSpec) -> None:
    """Refuse a model or a runtime to be made in a cluster."""
    in_cluster = spec.deployment_mode in (DeploymentMode.OME, DeploymentMode.KSERVE)
    remedy = "make it with kubectl, name it in model.id_or_path or base_runtime, and leave this out"
    for name in ("clusterbasemodel_config", "clusterservingruntime_config"):
        if getattr(spec, name):
            told = remedy if in_cluster else f"{spec.deployment_mode} needs none; leave this out"
            raise Refused(f"{name}: models and runtimes of OME are not made here; {told}", field=name)
