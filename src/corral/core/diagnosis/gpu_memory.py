"""Out of GPU memory: the failed request, the free memory, the other users of it, and how much to ask for."""

import math
import re
from dataclasses import dataclass, replace

from corral.core.diagnosis.failure import Diagnosis, Failure
from corral.core.diagnosis.rule import Case, Rule, returned_by_driver, rule
from corral.core.model.audience import Option
from corral.core.model.units import format_memory

_WORD = "out of GPU memory"

_MARGIN = 1.1
_OTHERS_MIB = 512
_PIECES = 0.1
"""From this fraction of a GPU on, fragmentation explains why the rest does not suffice."""

_LARGEST_GPU_MIB = 512 * 1024
"""A larger request is a mistake: no GPU has more memory (an MI355X has 288 GiB)."""

_UNITS_MIB = {"B": 2**-20, "bytes": 2**-20, "KB": 2**-10, "KiB": 2**-10, "MB": 1, "MiB": 1, "GB": 2**10, "GiB": 2**10}
_UNITS_MIB["TiB"] = 2**20
_SIZE = r"(\d{1,9}(?:\.\d{1,6})? ?(?:bytes|B|KB|MB|GB|KiB|MiB|GiB|TiB))"
_TYPE_BYTES = {"half": 2, "bfloat16": 2, "float": 4, "int32": 4, "double": 8, "int64": 8, "complex64": 8, "int8": 1}


@dataclass(frozen=True, slots=True)
class Shortage:
    """The missing memory, in MiB. Values that the message does not have are None.

    Attributes:
        tried: the size of the failed request.
        free, total: the GPU's free and whole memory.
        own: all memory of the failed process; `held` is a lower bound of it.
        unused: memory that it has reserved and cannot use, because it is fragmented.
    """

    tried: float | None = None
    free: float | None = None
    total: float | None = None
    own: float | None = None
    held: float | None = None
    unused: float | None = None

    @property
    def others(self) -> float | None:
        """The memory that other processes have of the GPU."""
        if self.total is None or self.free is None or self.own is None:
            return None
        return max(0.0, self.total - self.free - self.own)

    @property
    def need(self) -> float | None:
        """The memory of the process if its request had succeeded."""
        had = self.own if self.own is not None else self.held
        if had is None and self.total is not None and self.free is not None:
            had = self.total - self.free
        return None if had is None or self.tried is None else had + self.tried


def out_of_memory(failure: Failure, short: Shortage, smaller: str = "lower the batch size") -> Diagnosis:
    """Return the diagnosis of a shortage; `smaller` is how the program can need less."""
    return Diagnosis(f"{_WORD}{_numbers(short)}", _fix(failure, short, smaller), word=_WORD)


def _numbers(short: Shortage) -> str:
    total = "" if short.total is None else f" of {_size(short.total)}"
    free = "" if short.free is None else f" with {_size(short.free)} free{total}"
    numbers = ("" if short.tried is None else f"tried {_size(short.tried)}") + free
    if short.others is not None and short.others >= _OTHERS_MIB:
        numbers += f", {_size(short.others)} of it in use by other processes"
    return f": {numbers.strip()}" if numbers else ""


def _fix(failure: Failure, short: Shortage, smaller: str) -> str:
    tried, need, total = short.tried, short.need, short.total or failure.device_memory_mib
    if tried is not None and tried > _LARGEST_GPU_MIB:
        return f"no GPU has so much: {smaller}, or look for a wrong size"
    if tried is not None and short.unused is not None and short.unused >= max(tried, _PIECES * (total or 0)):
        return f"it has {_size(short.unused)} in pieces that it does not use: {failure.audience.env(_IN_ONE_PIECE)}"
    others = short.others is not None and short.others >= _OTHERS_MIB
    if others and not failure.shared and need is not None and total is not None and need <= total:
        return f"{failure.audience.look('corral devices')} shows who else uses it; or {smaller}"
    largest = failure.largest_device_mib
    if failure.had_the_largest or (largest is not None and max(need or 0, tried or 0) > largest):
        several = failure.audience.option(Option.GPUS)
        most = "" if largest is None else f" than {format_memory(largest)}"
        return (
            f"no GPU here has more{most}: split the model over several ({several}), lower the precision, or {smaller}"
        )
    if need is None:
        return f"{smaller}, or ask for more{_more(failure)}"
    gib = math.ceil(need * _MARGIN / 1024)
    if total is not None and not failure.shared:
        gib = max(gib, int(total / 1024) + 1)
    if largest is not None:
        gib = min(gib, largest // 1024)
    option = Option.GPU_MEM if failure.shared else Option.MIN_MEMORY
    return f"ask for {failure.audience.option(option, f'{gib}G')} or {smaller}"


_IN_ONE_PIECE = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"


def _more(failure: Failure) -> str:
    if failure.shared:
        granted = "" if failure.memory_mib is None else f" than its {format_memory(failure.memory_mib)}"
        return f"{granted} by {failure.audience.option(Option.GPU_MEM)}"
    known, by = failure.device_memory_mib, failure.audience.option(Option.MIN_MEMORY)
    return f" by {by}" if known is None else f" than the {format_memory(known)} of this GPU by {by}"


def _size(mib: float) -> str:
    return format_memory(round(mib)) if mib >= 1 or mib == 0 else "less than 1M"


def _mib(text: str | None) -> float | None:
    if text is None:
        return None
    number = text.rstrip("BKMGTibytes ")
    return float(number) * _UNITS_MIB[text[len(number) :].strip()]


def _found(pattern: str, text: str) -> float | None:
    match = re.search(pattern, text)
    return None if match is None else _mib(match[1])


def _torch(match: re.Match[str], case: Case) -> Diagnosis:
    """Read PyTorch's message. Since 2.1 it has the memory of the process; earlier the part that PyTorch reserved or
    cached.
    """
    text = match.string
    reserved = _found(_SIZE + r" (?:reserved in total by PyTorch|cached)", text)
    allocated = _found(_SIZE + r" already allocated", text)
    unused = _found(_SIZE + r" is reserved by PyTorch but unallocated", text)
    if unused is None and reserved is not None and allocated is not None:
        unused = reserved - allocated
    short = Shortage(
        tried=_mib(match[1]),
        free=_found(r"of which " + _SIZE + r" is free", text) or _found(_SIZE + r" free[;)]", text),
        total=_found(r"total capac\w{0,2}ty of " + _SIZE, text) or _found(_SIZE + r" total capacity", text),
        own=_found(r"this process has " + _SIZE + r" memory in use", text),
        held=reserved,
        unused=unused,
    )
    return out_of_memory(case.failure, short)


def _paddle(match: re.Match[str], case: Case) -> Diagnosis:
    free, held = _mib(match[3]), _mib(match[2])
    total = case.failure.device_memory_mib
    short = Shortage(tried=_mib(match[1]), free=free, total=total, held=held)
    found = out_of_memory(case.failure, short)
    if case.failure.shared:
        allocator = case.failure.audience.env("FLAGS_allocator_strategy=naive_best_fit")
        # PyTorch's growing pools clash with a limit on memory: the accelerator suite's handbook of vGPU failures.
        return replace(found, fix=f"{allocator}, then {found.fix}")
    return found


def _xla(match: re.Match[str], case: Case) -> Diagnosis:
    failure = case.failure
    found = out_of_memory(failure, Shortage(tried=int(match[1]) / 2**20, total=failure.device_memory_mib))
    part, whole = failure.memory_mib, failure.device_memory_mib
    if failure.shared and part and whole:
        fraction = math.floor(90 * part / whole) / 100
        own = failure.audience.env(f"XLA_PYTHON_CLIENT_MEM_FRACTION={fraction:.2f}")
        fix = f"JAX takes 75% of a GPU at its start: {own}"
        return replace(found, fix=f"{fix}; then {found.fix}")
    return found


def _tensor(match: re.Match[str], case: Case) -> Diagnosis | None:
    if "GPU" not in match.string:
        return None
    elements = math.prod(int(length) for length in match[1].split(",") if length)
    tried = elements * _TYPE_BYTES.get(match[2], 4) / 2**20
    return out_of_memory(case.failure, Shortage(tried=min(tried, 2.0 * _LARGEST_GPU_MIB)))


def _in_bytes(match: re.Match[str], case: Case) -> Diagnosis:
    return out_of_memory(case.failure, Shortage(tried=int(match[1].replace(",", "")) / 2**20))


def _in_mib(match: re.Match[str], case: Case) -> Diagnosis:
    return out_of_memory(case.failure, Shortage(tried=float(match[1])), "offload fewer layers")


def _no_numbers(_match: re.Match[str], case: Case) -> Diagnosis:
    return out_of_memory(case.failure, Shortage(total=None))


def _cublas(_match: re.Match[str], case: Case) -> Diagnosis:
    found = out_of_memory(case.failure, Shortage())
    return replace(found, what="cuBLAS found no GPU memory to begin with, so the GPU is full")


_TENSOR = r"OOM when allocating tensor with shape\[([0-9][0-9,]{0,79})\] and type (\w{1,20}) on "

RULES: tuple[Rule, ...] = (
    rule(r"(?:CUDA|HIP) out of memory\. Tried to allocate " + _SIZE, _torch),
    rule(
        r"Out of memory error on GPU \d{1,3}\. Cannot allocate " + _SIZE + r" memory on GPU \d{1,3}, "
        r"(?:" + _SIZE + r" memory has been allocated and )?available memory is only " + _SIZE + r"\.",
        _paddle,
        bare=True,
    ),
    rule(
        r"(?:RESOURCE_EXHAUSTED|Resource exhausted): Out of memory (?:while trying to allocate|allocating) (\d{1,15}) "
        r"bytes",
        _xla,
    ),
    rule(r"(?:\{\{[^}]{1,200}\}\} ?)?" + _TENSOR, _tensor),
    rule(r" {0,8}\(\d\) (?:RESOURCE_EXHAUSTED|Resource exhausted): {1,2}" + _TENSOR, _tensor, bare=True),
    rule(r"Out of memory allocating ([0-9][0-9,]{0,19}) bytes \(allocated so far: ", _in_bytes),
    rule(
        r"[\w:]{1,80}: allocating (\d{1,9}\.\d\d) MiB on device \d{1,3}: cudaMalloc failed: out of memory",
        _in_mib,
        bare=True,
    ),
    rule(
        r"failed to allocate [\d.]{1,12}[KMGT]? \((\d{1,15}) bytes\) from device: CUDA_ERROR_OUT_OF_MEMORY",
        _in_bytes,
        consequence=True,  # TensorFlow then tries less
    ),
    rule(r".{0,160}(?:CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation)", _no_numbers),
    rule(r"CUDA error: out of memory", _no_numbers, bare=True),
    rule(returned_by_driver("OUT_OF_MEMORY", "out of memory"), _no_numbers, bare=True),
    rule(r".{0,60}CUBLAS_STATUS_ALLOC_FAILED", _cublas),
)
