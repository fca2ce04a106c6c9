"""Whether a task makes sense: its space, objective, limits, traffic and inference server, before it is written down."""

from dataclasses import replace

from corral.core.model.tuning.tuning_spec import TuningSpec
from corral.tuner.deployments.modes import MODES
from corral.tuner.inference_engine import engine_of
from corral.tuner.measuring.generators import choose_generator


def check_task(spec: TuningSpec) -> tuple[str, ...]:
    """What its user should know. Raises Refused, naming the field and what would be accepted."""
    # It needs numpy, which a server that has no tasks does without.
    from corral.tuner.tasks.task_problem import problem_of

    engine = engine_of(spec)
    MODES[spec.deployment_mode].check(spec, engine)
    # Whether the model's directory has a tokenizer is for its user's process to see.
    tokenizer = spec.benchmark.model_tokenizer or spec.model.id_or_path
    choose_generator(replace(spec.benchmark, model_tokenizer=tokenizer))
    return problem_of(spec, engine).notes
