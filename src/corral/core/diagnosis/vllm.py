"""Diagnoses of vLLM, which does not start if its part of the GPU's memory does not suffice."""

import math
import re

from corral.core.diagnosis.failure import Diagnosis, Failure
from corral.core.diagnosis.rule import Case, Rule, rule
from corral.core.model.audience import Option
from corral.core.model.units import format_memory

_GIB = r"(\d{1,6}(?:\.\d{1,4})?)"
_HEADROOM = 0.02
_LEAST_FRACTION = 0.1


def _gib(text: str) -> str:
    return format_memory(round(float(text) * 1024))


def _more(failure: Failure) -> str:
    if failure.had_the_largest:
        return f"more GPUs ({failure.audience.option(Option.GPUS)}, --tensor-parallel-size)"
    option = Option.GPU_MEM if failure.shared else Option.MIN_MEMORY
    return f"more GPU memory ({failure.audience.option(option)})"


def _free_at_start(match: re.Match[str], case: Case) -> Diagnosis:
    free, total, wanted = float(match[1]), float(match[2]), match[4]
    what = f"vLLM wants {_gib(wanted)} and {_gib(match[1])} of the GPU's {_gib(match[2])} are free"
    fraction = math.floor(100 * (free / total - _HEADROOM)) / 100 if total else 0.0
    if fraction < _LEAST_FRACTION:
        return Diagnosis(what, f"{case.failure.audience.look('corral devices')} shows who else uses the GPU")
    return Diagnosis(what, f"--gpu-memory-utilization {fraction:.2f}, or ask for a GPU that nobody else uses")


def _no_cache(_match: re.Match[str], case: Case) -> Diagnosis:
    what = "vLLM has no GPU memory left for its cache beside the model's weights"
    return Diagnosis(what, f"raise --gpu-memory-utilization, ask for {_more(case.failure)}, or quantize the model")


def _tokens(match: re.Match[str], _case: Case) -> Diagnosis:
    what = f"a context of {match[1]} tokens does not fit into vLLM's cache, which takes {match[2]}"
    return Diagnosis(what, f"--max-model-len {match[2]}, or a higher --gpu-memory-utilization")


def _cache(match: re.Match[str], case: Case) -> Diagnosis:
    what = f"a context of {match[1]} tokens needs {_gib(match[2])} of cache and vLLM has {_gib(match[3])}"
    fitting = re.search(r"estimated maximum model length is (\d{1,9})", match.string)
    shorter = "a smaller --max-model-len" if fitting is None else f"--max-model-len {fitting[1]}"
    return Diagnosis(what, f"{shorter}, or {_more(case.failure)}")


RULES: tuple[Rule, ...] = (
    rule(
        rf"Free memory on device (?:cuda:\d{{1,3}} )?\({_GIB}/{_GIB} GiB\) on startup is less than desired GPU memory "
        rf"utilization \((\d(?:\.\d{{1,4}})?), {_GIB} GiB\)",
        _free_at_start,
    ),
    rule(r"No available memory for the cache blocks\.", _no_cache),
    rule(
        r"The model's max seq len \((\d{1,9})\) is larger than the maximum number of tokens that can be stored in KV "
        r"cache \((\d{1,9})\)",
        _tokens,
    ),
    rule(
        r"To serve at least one request with the models?'s max seq len \((\d{1,9})\), "
        rf"\(?{_GIB} GiB KV cache is needed, which is larger than the available KV cache memory \({_GIB} GiB\)",
        _cache,
    ),
)
