"""The values for forms of tasks: presets, and the known flags of inference servers."""

from functools import cache

from corral.core.model.serving.presets import presets
from corral.features.tuner.engines.inference_engine import find_inference_engine
from corral.features.tuner.other_names.answers import AutotunerCatalog, AutotunerPreset

RUNTIMES = ("sglang", "vllm")


@cache
def catalog() -> AutotunerCatalog:
    """Return all values."""
    known = tuple(
        AutotunerPreset(number, preset.name, preset.description, preset.group, None, True, preset.fields, None)
        for number, preset in enumerate(presets(), 1)
    )
    return AutotunerCatalog(known, {name: find_inference_engine(name).known_flags for name in RUNTIMES})
