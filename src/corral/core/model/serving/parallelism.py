"""The sizes of parallelism in parameters, and the number of GPUs that an inference server takes for them. Pure."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from corral.core.model.errors import Refused
from corral.core.model.serving.presets import without_presets
from corral.core.model.units import is_whole

MOST_RANKS = 4_096
"""The largest size of parallelism that is accepted."""

_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "tp": ("tensor-parallel-size", "tp-size", "tpsize", "tp"),
    "pp": ("pipeline-parallel-size", "pp-size", "ppsize", "pp"),
    "dp": ("data-parallel-size", "dp-size", "dpsize", "dp"),
    "cp": ("context-parallel-size", "prefill-context-parallel-size", "cp-size", "cpsize", "cp"),
    "dcp": ("decode-context-parallel-size", "dcp-size", "dcpsize", "dcp"),
}
_AXIS_OF = {spelling: axis for axis, spellings in _SPELLINGS.items() for spelling in spellings}
_GROUPS = ("__parallel__", "__quant__")
_OFF = ("false", "0", "no", "off")


@dataclass(frozen=True, slots=True)
class World:
    """How an inference server counts its GPUs.

    Attributes:
        factors: the axes whose sizes are multiplied. Those of no other axis count.
        inside: switches by the axis that each moves inside tp, so that it is no factor.
    """

    factors: tuple[str, ...]
    inside: Mapping[str, str] = field(default_factory=dict)


WORLDS: Mapping[str, World] = {
    "vllm": World(("tp", "pp", "dp", "cp")),
    "sglang": World(("tp", "pp", "dp"), {"dp": "enable-dp-attention"}),
    "tensorrt-llm": World(("tp", "pp", "cp")),
}
"""The worlds by engine, in the versions that the tuner's engine files name.

vLLM's decode context parallelism splits the cache over the GPUs of tp; each replica (dp) has GPUs of its own. A replica
of SGLang has GPUs of its own too, but with attention by replicas all share those of tp. TensorRT-LLM has no replicas.
"""

_ENGINE_WORDS: Mapping[str, tuple[str, ...]] = {
    "vllm": ("vllm", "huggingfaceserver"),
    "sglang": ("sglang", "srt"),
    "tensorrt-llm": ("tensorrt", "trtllm", "trt"),
}
"""Words in the names of images and of runtimes of OME and KServe, by engine."""


def engine_in(runtime: str) -> str | None:
    """Return the engine that the name of a runtime or image contains, None if it contains none."""
    words = set(re.split(r"[^a-z0-9]+", runtime.lower()))
    return next((engine for engine, names in _ENGINE_WORDS.items() if words & {*names}), None)


def axis_of(name: str) -> str | None:
    """Return the axis ("tp") of a parameter in any spelling ("tp_size", "--tensor-parallel-size"), None for others."""
    return _AXIS_OF.get(flag_of(name))


@lru_cache(maxsize=512)
def flag_of(name: str) -> str:
    """Return a parameter's name as a flag without its dashes: "dp-size" for "__parallel__dp_size" and "--DP-size"."""
    return bare_name(name).lower().lstrip("-").replace("_", "-")


def bare_name(name: str) -> str:
    """Return a parameter's name without its group ("__parallel__")."""
    for group in _GROUPS:
        name = name.removeprefix(group)
    return name


def parallel_sizes(parameters: Mapping[str, Any]) -> dict[str, int]:
    """Return the sizes by axis ("tp", "pp", "dp", "cp", "dcp"), of the axes that one combination names.

    Presets count with their fields. Of two spellings of an axis the last counts, as on a command line. Raises Refused
    if a size is no whole number from 1 to `MOST_RANKS`.
    """
    named = without_presets(parameters).items()
    return {axis: _size(name, value) for name, value in named if (axis := axis_of(name)) and _is_given(value)}


def world_size(engine: str, parameters: Mapping[str, Any]) -> int:
    """Return the number of GPUs of one combination, as its engine counts them.

    `engine` may be the name of an image, or of a runtime in a cluster. If no known engine is in it, the number is
    tp x pp x max(dp, dcp, cp). Raises Refused for an invalid size.
    """
    sizes = parallel_sizes(parameters)
    kind = engine_in(engine)
    if kind is None:
        return default_world_size(sizes)
    world = WORLDS[kind]
    return math.prod(sizes.get(axis, 1) for axis in world.factors if not is_on(parameters, world.inside.get(axis)))


def default_world_size(sizes: Mapping[str, int]) -> int:
    """Return tp x pp x max(dp, dcp, cp)."""
    tp, pp, *others = (sizes.get(axis, 1) for axis in _SPELLINGS)
    return tp * pp * max(others)


def is_on(parameters: Mapping[str, Any], switch: str | None) -> bool:
    """Return whether a switch ("enable-dp-attention") is among the parameters, and is not off."""
    if switch is None:
        return False
    given = [value for name, value in parameters.items() if flag_of(name) == switch]
    return bool(given) and given[-1] not in (None, False) and str(given[-1]).lower() not in _OFF


def _is_given(value: Any) -> bool:
    return value is not None and value is not False


def _size(name: str, value: Any) -> int:
    number = int(value) if isinstance(value, str) and is_whole(value.strip()) else value
    if type(number) is not int or not 1 <= number <= MOST_RANKS:
        raise Refused(
            f"{name}: {value!r:.60} is no size of parallelism; give a whole number from 1 to {MOST_RANKS}", field=name
        )
    return number
