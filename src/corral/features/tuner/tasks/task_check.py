"""Checks a task before it is stored: its space, objective, limits, traffic and inference server."""

from dataclasses import replace

from corral.config.tuner import TunerSettings
from corral.core.model.errors import Refused
from corral.features.tuner.deployments.modes import mode_of
from corral.features.tuner.engines.inference_engine import engine_on_site
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
    # Only the user's process can see whether the model's directory has a tokenizer.
    tokenizer = spec.benchmark.model_tokenizer or spec.model.id_or_path
    choose_generator(replace(spec.benchmark, model_tokenizer=tokenizer))
    return problem_of(spec, engine).notes


def _check_makes_nothing(spec: TuningSpec) -> None:
    """Refuse a model or a runtime to be made in a cluster."""
    in_cluster = spec.deployment_mode in (DeploymentMode.OME, DeploymentMode.KSERVE)
    remedy = "make it with kubectl, name it in model.id_or_path or base_runtime, and leave this out"
    for name in ("clusterbasemodel_config", "clusterservingruntime_config"):
        if getattr(spec, name):
            told = remedy if in_cluster else f"{spec.deployment_mode} needs none; leave this out"
            raise Refused(f"{name}: models and runtimes of OME are not made here; {told}", field=name)
