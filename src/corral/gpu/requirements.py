"""The formula of another autotuner for the GPUs of a task, and the MB on each. Arithmetic only.

It is for programs that were written for it. It decides nothing here: Corral itself counts GPUs as each engine does
(`core.model.serving.parallelism.world_size`), and estimates memory by the model (`core.preflight.model_need`).
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from corral.core.model.errors import Refused, nearest
from corral.core.model.serving.parallelism import MOST_RANKS, axis_of, default_world_size, parallel_sizes
from corral.core.model.serving.presets import PARALLEL, PARALLEL_PRESET, preset_names, without_presets
from corral.core.model.units import DECIMAL, WHOLE, is_whole

UNKNOWN_MODEL_MB = 8_000
_MB_BY_BILLIONS = ((Fraction(13), 12_000), (Fraction(70), 20_000))
_SMALL_BILLIONS = 7
_MB_PER_BILLION = 2_400

_SIZE = re.compile(rf"(?<![a-z0-9])(?<!\d\.)(?P<word>[a-z]*)(?:(?P<experts>{WHOLE})x)?(?P<n>{DECIMAL})b(?![a-z0-9])")
_MOST_COMBINATIONS = 100_000
Combination = Mapping[str, int]


class GpuEstimate(NamedTuple):
    """The number of GPUs, and the MB of memory on each."""

    gpus: int
    memory_mib: int


def gpu_estimate(model: str, parameters: Mapping[str, Any]) -> GpuEstimate:
    """Return the estimate of one combination, by the formula of `estimate_gpu_requirements`.

    Raises Refused for an invalid size of parallelism.
    """
    gpus = default_world_size(parallel_sizes(parameters))
    return GpuEstimate(gpus, memory_mb_per_gpu(model_billions(model), gpus))


def estimate_gpu_requirements(task_config: Mapping[str, Any]) -> tuple[int, int]:
    """Return (GPUs, MB of memory on each) for the largest combination of the task's parameters.

    A combination's world size is tp x pp x max(dp, dcp, cp). Each may be spelled in full, short, with hyphens or
    underscores ("tensor-parallel-size", "tp-size", "tp_size", "tpsize", "tp"), as key of a grid ("__parallel__tp"), and
    be a number, a list, or {"type": "choice", "values": [...]}. `parallel_config` may name them too, as one mapping or
    as a list of mappings, each a combination of its own; and presets, by name. Combinations that the runtime refuses do
    not count: SGLang wants tp to be a multiple of dp, and no cp; TensorRT-LLM wants no dp.

    Memory follows from the model's size in billions of parameters, n, read from its name: n < 7: 8,000; n <= 13:
    12,000; n <= 70: 20,000; above: max(20,000, ceil(2,400 n / world size)); unknown: 8,000.

    Raises Refused for sizes that are not whole numbers from 1, for a value that should be a mapping and is not, and if
    the runtime takes no combination at all.
    """
    task_config = _mapping("task_config", task_config)
    runtime = str(task_config.get("base_runtime") or "").lower()
    sizes = [default_world_size(one) for one in _combinations(task_config) if _allowed(runtime, one)]
    if not sizes:
        raise Refused(f"parameters: no combination of them can run with {runtime}")
    world_size = max(sizes)
    model = task_config.get("model")
    name = model.get("id_or_path") if isinstance(model, Mapping) else model
    return world_size, memory_mb_per_gpu(model_billions(str(name or "")), world_size)


def model_billions(name: str) -> Fraction | None:
    """Return the billions of parameters according to a model's name or path; None if it has no size.

    The last part of a path with a size counts. "8x7b" is eight times seven; in "235b-a22b" the second number is the
    active part and does not count; "17b" is seventeen, and the "4b" of "4bit" is no size.
    """
    for part in reversed(name.lower().split("/")):
        for match in _SIZE.finditer(part):
            if match["word"] != "a":
                return Fraction(match["n"]) * int(match["experts"] or 1)
    return None


def memory_mb_per_gpu(billions: Fraction | None, world_size: int) -> int:
    """The table of `estimate_gpu_requirements`."""
    if billions is None or billions < _SMALL_BILLIONS:
        return UNKNOWN_MODEL_MB
    for most, memory_mb in _MB_BY_BILLIONS:
        if billions <= most:
            return memory_mb
    return max(_MB_BY_BILLIONS[-1][1], math.ceil(_MB_PER_BILLION * billions / world_size))


def _allowed(runtime: str, combination: Combination) -> bool:
    tp, dp, cp = (combination.get(axis, 1) for axis in ("tp", "dp", "cp"))
    if runtime.startswith("sglang"):
        return tp % dp == 0 and cp == 1
    return dp == 1 or not runtime.startswith(("tensorrt", "trt"))


def _combinations(task_config: Mapping[str, Any]) -> Iterator[Combination]:
    parameters = _mapping("parameters", task_config.get("parameters") or {})
    shared = task_config.get("parallel_config") or {}
    one = isinstance(shared, Mapping) and "values" not in shared
    for entry in [shared] if one else _values("parallel_config", shared):
        group = _mapping("parallel_config", entry)
        axes = _axes(parameters) | _axes(group)
        presets = _presets(parameters, PARALLEL_PRESET) + _presets(group, "preset", "presets") or [{}]
        count = math.prod(map(len, axes.values())) * len(presets)
        if count > _MOST_COMBINATIONS:
            raise Refused(f"parameters: {count:,} combinations; at most {_MOST_COMBINATIONS:,} can be estimated")
        for preset, values in itertools.product(presets, itertools.product(*axes.values())):
            yield preset | dict(zip(axes, values, strict=True))


def _mapping(field: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise Refused(f"{field}: {value!r} must be a mapping of names to values", field=field)
    return value


def _presets(given: Mapping[str, Any], *keys: str) -> list[dict[str, int]]:
    """The sizes of each preset of parallelism that is named under these keys."""
    named = [(key, name) for key in keys if key in given for name in _values(key, given[key])]
    for key, name in named:
        if name not in (known := preset_names(PARALLEL)):
            raise Refused(f"{key}: {name!r:.80} is no preset; {nearest(str(name), known)}", field=key)
    return [parallel_sizes(without_presets({PARALLEL_PRESET: name})) for _, name in named]


def _axes(parameters: Mapping[str, Any]) -> dict[str, list[int]]:
    """The sizes that each axis may have, of those that the parameters name; a list without entries names nothing."""
    axes: dict[str, list[int]] = {}
    for key, value in parameters.items():
        axis = axis_of(str(key))
        if axis is not None:
            axes.setdefault(axis, []).extend(_size(key, entry) for entry in _values(key, value))
    return {axis: sorted(set(sizes)) for axis, sizes in axes.items() if sizes}


def _values(key: str, value: Any) -> list[Any]:
    """The entries of a parameter: itself, a list's, a choice's, or a range's from `low` to `high`."""
    if isinstance(value, Mapping):
        if "low" in value and "high" in value:
            return list(range(_size(key, value["low"]), _size(key, value["high"]) + 1))
        value = value.get("values", value.get("choices"))
        if value is None:
            raise Refused(f'{key}: a choice must have its entries under "values"', field=key)
    return list(value) if isinstance(value, list | tuple) else [value]


def _size(key: str, value: Any) -> int:
    number = int(value) if isinstance(value, str) and is_whole(value.strip()) else value
    if type(number) is not int or not 1 <= number <= MOST_RANKS:
        raise Refused(f"{key}: {value!r} must be a whole number from 1 to {MOST_RANKS}", field=key)
    return number
