"""Estimates the number of GPUs for a combination of parameters, and roughly the memory needed on each. Pure."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from corral.core.model.errors import Refused
from corral.features.tuner.engines.inference_engine import canonical
from corral.features.tuner.model.presets import without_presets

_BILLIONS = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)\s?b(?![a-z0-9])", re.IGNORECASE)
_MIB_FROM_BILLIONS = ((60.0, 20_000), (7.0, 12_000))
_LEAST_MIB = 8_000


class GpuEstimate(NamedTuple):
    """The number of GPUs, and the least MiB that the model needs on each."""

    gpus: int
    memory_mib: int


def gpu_estimate(model: str, parameters: Mapping[str, Any]) -> GpuEstimate:
    """Return tp x pp x max(dp, dcp, cp) GPUs, and the memory by the size in the model's name.

    Raises Refused for an invalid size of parallelism.
    """
    said = without_presets(parameters)
    sizes = {name: _size(given, name, said[given]) for given in said if (name := canonical(given)) in _SIZES}
    apart = max(sizes.get("dp", 1), sizes.get("dcp", 1), sizes.get("cp", 1))
    return GpuEstimate(sizes.get("tp", 1) * sizes.get("pp", 1) * apart, _memory_mib(model))


_SIZES = ("tp", "pp", "dp", "cp", "dcp")


def _size(given: str, name: str, value: Any) -> int:
    if type(value) is not int or not 1 <= value <= 1024:
        raise Refused(f"{given}: {value!r} is no size of parallelism; give a whole number from 1 on", field=given)
    return value


def _memory_mib(model: str) -> int:
    sizes = [float(found) for found in _BILLIONS.findall(model.rsplit("/", 1)[-1])]
    billions = max(sizes, default=0.0)
    return next((mib for least, mib in _MIB_FROM_BILLIONS if billions >= least), _LEAST_MIB)
