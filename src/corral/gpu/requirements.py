"""The number of GPUs that a tuning task needs, and the memory on each. Arithmetic only."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from corral.core.model.errors import Refused
from corral.core.model.units import DECIMAL, WHOLE, is_whole

UNKNOWN_MODEL_MB = 8_000
_MB_BY_BILLIONS = ((Fraction(13), 12_000), (Fraction(70), 20_000))
_SMALL_BILLIONS = 7
_MB_PER_BILLION = 2_400

_SPELLINGS = {
    "tp": ("tensor-parallel-size", "tp-size", "tp"),
    "pp": ("pipeline-parallel-size", "pp-size", "pp"),
    "dp": ("data-parallel-size", "dp-size", "dp"),
    "cp": ("context-parallel-size", "cp-size", "cp"),
    "dcp": ("decode-context-parallel-size", "dcp-size", "dcp"),
}
_AXIS_OF = {spelling: axis for axis, spellings in _SPELLINGS.items() for spelling in spellings}
_SIZE = re.compile(rf"(?<![a-z0-9])(?<!\d\.)(?P<word>[a-z]*)(?:(?P<experts>{WHOLE})x)?(?P<n>{DECIMAL})b(?![a-z0-9])")
_MOST_COMBINATIONS = 100_000
_MOST_GPUS = 4_096
Combination = Mapping[str, int]


def estimate_gpu_requirements(task_config: Mapping[str, Any]) -> tuple[int, int]:
    """Return (GPUs, MB of memory on each) for the largest combination of the task's parameters.

    A combination's world size is tp x pp x max(dp, dcp, cp). Each may be spelled in full, short, with hyphens or
    underscores ("tensor-parallel-size", "tp-size", "tp_size", "tp"), and be a number, a list, or {"type": "choice",
    "values": [...]}. `parallel_config` may name them too, as one mapping or as a list of mappings, each a combination
    of its own. Combinations that the runtime refuses do not count: SGLang wants tp to be a multiple of dp, and no cp;
    TensorRT-LLM wants no dp.

    Memory follows from the model's size in billions of parameters, n, read from its name: n < 7: 8,000; n <= 13:
    12,000; n <= 70: 20,000; above: max(20,000, ceil(2,400 n / world size)); unknown: 8,000.

    Raises Refused for sizes that are not whole numbers from 1, for a value that should be a mapping and is not, and if
    the runtime takes no combination at all.
    """
    task_config = _mapping("task_config", task_config)
    runtime = str(task_config.get("base_runtime") or "").lower()
    sizes = [_world_size(one) for one in _combinations(task_config) if _allowed(runtime, one)]
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


def _world_size(combination: Combination) -> int:
    tp, pp, dp, cp, dcp = (combination.get(axis, 1) for axis in _SPELLINGS)
    return tp * pp * max(dp, cp, dcp)


def _allowed(runtime: str, combination: Combination) -> bool:
    tp, _, dp, cp, _ = (combination.get(axis, 1) for axis in _SPELLINGS)
    if runtime.startswith("sglang"):
        return tp % dp == 0 and cp == 1
    return dp == 1 or not runtime.startswith(("tensorrt", "trt"))


def _combinations(task_config: Mapping[str, Any]) -> Iterator[Combination]:
    parameters = _mapping("parameters", task_config.get("parameters") or {})
    shared = task_config.get("parallel_config") or {}
    one = isinstance(shared, Mapping) and "values" not in shared
    groups = [shared] if one else _values("parallel_config", shared)
    for group in groups:
        axes = _axes(parameters) | _axes(_mapping("parallel_config", group))
        count = math.prod(map(len, axes.values()))
        if count > _MOST_COMBINATIONS:
            raise Refused(f"parameters: {count:,} combinations; at most {_MOST_COMBINATIONS:,} can be estimated")
        for values in itertools.product(*axes.values()):
            yield dict(zip(axes, values, strict=True))


def _mapping(field: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise Refused(f"{field}: {value!r} must be a mapping of names to values", field=field)
    return value


def _axes(parameters: Mapping[str, Any]) -> dict[str, list[int]]:
    """The sizes that each axis may have, of those that the parameters name; a list without entries names nothing."""
    axes: dict[str, list[int]] = {}
    for key, value in parameters.items():
        axis = _AXIS_OF.get(str(key).lower().lstrip("-").replace("_", "-"))
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
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= _MOST_GPUS:
        raise Refused(f"{key}: {value!r} must be a whole number from 1 to {_MOST_GPUS}", field=key)
    return number
