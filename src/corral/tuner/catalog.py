"""The values for forms of tasks: presets, and the known flags of inference servers."""

from functools import cache

from corral.core.model.answers.autotuner import AutotunerCatalog, AutotunerPreset
from corral.tuner.inference_engine import find_inference_engine
from corral.tuner.presets import presets

RUNTIMES = ("sglang", "vllm")


@cache
def catalog() -> AutotunerCatalog:
    """Return all values."""
    known = tuple(
        AutotunerPreset(number, preset.name, preset.description, preset.group, None, True, preset.fields, None)
        for number, preset in enumerate(presets(), 1)
    )
    return AutotunerCatalog(known, {name: find_inference_engine(name).known_flags for name in RUNTIMES})
