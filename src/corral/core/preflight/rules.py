"""The preflight check: every rule looks at a workload and a place, and yields its findings."""

from collections.abc import Iterator
from functools import lru_cache

from corral.core.model.devices.means import Means
from corral.core.model.units import count_of, format_memory
from corral.core.model.version import dotted
from corral.core.ports.preflight import Effect, Finding, Place, Workload
from corral.core.preflight.precision import SUPPORT, canonical
from corral.core.preflight.serving_setup import USUAL_FRACTION
from corral.vendors.registry import vendor_named
from corral.vendors.vendor import Rule

_FRAMEWORK_NEEDS = {"vllm": (7, 0), "sglang": (7, 5)}
"""The lowest compute capability that each framework supports, by its installation page."""

_PADDLE_ALLOCATOR = "naive_best_fit"

_MAX_RANKS = 4096
"""The largest tensor parallel size that is suggested."""

_FRACTION_FLAG = {"vllm": "--gpu-memory-utilization", "sglang": "--mem-fraction-static"}

_CONTEXT_FLAG = {"vllm": "--max-model-len", "sglang": "--context-length"}


def _device_count(work: Workload, place: Place) -> Iterator[Finding]:
    """Check that a program which starts a rank per device has all these devices, and leaves none idle."""
    if work.world_size is None or work.world_size == place.devices:
        return
    what = f"the program uses {count_of(work.world_size, 'GPU')} and {place.devices} would be granted"
    if work.world_size > place.devices:
        why = "its ranks find no device of their own and fail, or double up on one"
        yield Finding(Effect.BLOCK, "device-count", what, why, f"--gpus {work.world_size}")
    elif place.devices:
        why = f"{count_of(place.devices - work.world_size, 'GPU')} would be allocated and stay idle"
        yield Finding(Effect.WARN, "device-count", what, why, f"--gpus {work.world_size}")


def _head_division(work: Workload, place: Place) -> Iterator[Finding]:
    """Check that the tensor parallel size divides the number of attention heads: otherwise servers refuse to start."""
    ranks, heads = work.tensor_parallel, work.heads
    if ranks is None or not heads or heads % ranks == 0:
        return
    fits = next(one for one in range(min(ranks, heads, _MAX_RANKS), 0, -1) if heads % one == 0)
    what = f"the model has {heads} attention heads and they are to be split over {ranks} GPUs"
    why = "each GPU takes as many as the others, so the server ends at once where that does not come out even"
    yield Finding(Effect.BLOCK, "head-division", what, why, f"tensor parallel size {fits} and --gpus {fits}")


def _paddle_allocator(work: Workload, place: Place) -> Iterator[Finding]:
    """Warn of Paddle's growing allocator, which does not work well on a virtual or shared device."""
    if work.framework != "paddle" or not place.shared or work.allocator == _PADDLE_ALLOCATOR:
        return
    strategy = work.allocator or "auto_growth, its default"
    what = f"PaddlePaddle allocates by {strategy} on a shared device"
    why = "its growing pools clash with a limit on memory: out of memory early, and random crashes"
    yield Finding(Effect.WARN, "paddle-allocator", what, why, f"--env FLAGS_allocator_strategy={_PADDLE_ALLOCATOR}")


def _precision_against_device(work: Workload, place: Place) -> Iterator[Finding]:
    """Block a format that the device does not support; warn of one that it stores but does not compute in."""
    compute = place.compute
    if compute is None:
        return
    for asked in dict.fromkeys((canonical(work.dtype), canonical(work.quantization))):
        support = SUPPORT.get(asked) if asked else None
        if asked is None or support is None or compute >= support.native:
            continue
        what = f"the program asks for {asked} and {place.model} has compute capability {dotted(compute)}"
        native = dotted(support.native)
        elsewhere = f"or ask for a device that has it: --min-compute {native}"
        if support.works is not None and compute < support.works:
            why = f"{asked} needs {dotted(support.works)} or newer"
            yield Finding(Effect.BLOCK, "precision", what, why, f"{support.instead}; {elsewhere}")
        else:
            why = f"{asked} is native from {native} on; {support.below}"
            yield Finding(Effect.WARN, "precision", what, why, f"{support.instead}; {elsewhere}")


def _framework_against_device(work: Workload, place: Place) -> Iterator[Finding]:
    """Check that the framework supports the device's compute capability."""
    least = _FRAMEWORK_NEEDS.get(work.framework or "")
    if least is None or place.compute is None or place.compute >= least:
        return
    what = f"{work.framework} would run on {place.model}, compute capability {dotted(place.compute)}"
    why = f"{work.framework} supports {dotted(least)} and newer"
    yield Finding(Effect.BLOCK, "framework", what, why, f"ask for a newer device: --min-compute {dotted(least)}")


def granted_mib(place: Place) -> int | None:
    """The MiB that the job has of each device: its grant, else all of the device; None if neither is known."""
    return place.device_memory_mib if place.memory_mib is None else place.memory_mib


def _memory_fit(work: Workload, place: Place) -> Iterator[Finding]:
    """Check that weights and working space fit, and warn if the cache for the whole requested context does not."""
    granted = granted_mib(place)
    if granted is None or work.need_mib is None:
        return
    if work.need_mib > granted:
        short = format_memory(work.need_mib - granted)
        what = f"the model needs {format_memory(work.need_mib)} of each GPU and {format_memory(granted)} is granted"
        why = f"weights, working space and a least cache are {short} more, so it cannot be loaded"
        yield Finding(Effect.BLOCK, "memory-fit", what, why, _more_memory(work, place, work.need_mib))
    elif work.want_mib is not None and work.want_mib > granted:
        short = format_memory(work.want_mib - granted)
        need = format_memory(work.want_mib)
        what = f"the context and batch asked for need {need} and {format_memory(granted)} is granted"
        why = f"the cache would be {short} too large; requests beyond it wait, are preempted, or the start is refused"
        flag = _CONTEXT_FLAG.get(work.framework or "", "--context")
        fix = f"{flag} {work.fitting_context}" if work.fitting_context else "ask for a smaller batch"
        yield Finding(Effect.WARN, "memory-fit", what, why, fix)


def _more_memory(work: Workload, place: Place, need_mib: int) -> str:
    """The advice how to get `need_mib` on each device."""
    filtered = f"--min-memory {format_memory(need_mib)}"
    if place.means is Means.MIG:
        return f"ask for a larger slice; or for whole devices, without --mig: {filtered}"
    if place.shared and (place.device_memory_mib or 0) >= need_mib:
        return f"ask for more of the device: --gpu-mem {need_mib}M"
    spread = 2 * max(1, work.world_size or place.devices)
    return f"spread it: --gpus {spread} with tensor parallel size {spread}; or ask for bigger devices: {filtered}"


def memory_fraction(work: Workload, place: Place) -> Iterator[Finding]:
    """Check that a server which takes a fraction of the whole device takes no more than its share."""
    framework = work.framework or ""
    fraction = work.memory_fraction or USUAL_FRACTION.get(framework)
    flag = _FRACTION_FLAG.get(framework)
    if fraction is None or flag is None or place.memory_mib is None or not place.device_memory_mib:
        return
    if place.means is Means.MIG:
        return
    taken_mib = int(place.device_memory_mib * fraction)
    if taken_mib <= place.memory_mib:
        return
    part = place.memory_mib * 100 // place.device_memory_mib / 100
    taken, granted = format_memory(taken_mib), format_memory(place.memory_mib)
    what = f"{framework} takes {fraction:g} of the device, {taken}, and {granted} is granted"
    if place.means is Means.MPS:
        why = "MPS refuses what is beyond the grant, and the server ends when it is refused"
    else:
        why = "the memory guard stops a job that holds more than its grant"
    yield Finding(Effect.BLOCK, "memory-fraction", what, why, f"{flag} {part:.2f}")


RULES: tuple[Rule, ...] = (
    _framework_against_device,
    _precision_against_device,
    _memory_fit,
    memory_fraction,
    _device_count,
    _head_division,
)
"""The rules for devices of any vendor."""


@lru_cache(maxsize=256)
def check(work: Workload, place: Place, *, strict: bool = False) -> tuple[Finding, ...]:
    """All findings, blocking ones first, each group in the order of the rules.

    With `strict`, a runtime newer than the driver's version blocks, even if the vendor calls the two compatible.
    """
    vendor = vendor_named(place.vendor)
    rules = (*vendor.preflight.driver_rules(strict), *RULES, *vendor.preflight.sharing_rules(), _paddle_allocator)
    found = [finding for rule in rules for finding in rule(work, place)]
    return tuple(sorted(found, key=lambda finding: finding.effect is not Effect.BLOCK))


def blocking(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings that refuse the job."""
    return tuple(finding for finding in findings if finding.effect is Effect.BLOCK)
