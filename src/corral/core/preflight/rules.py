"""The preflight check: every rule looks at a workload and a place, and yields its findings."""

from collections.abc import Iterator
from functools import lru_cache

from corral.core.model.units import count_of
from corral.core.model.version import dotted
from corral.core.ports.preflight import Effect, Finding, Place, Workload
from corral.core.preflight.memory_rules import memory_fit, memory_fraction
from corral.core.preflight.precision import SUPPORT, canonical
from corral.vendors.registry import vendor_named
from corral.vendors.vendor import Rule

_FRAMEWORK_NEEDS = {"vllm": (7, 0), "sglang": (7, 5)}
"""The lowest compute capability that each framework supports, by its installation page."""

_PADDLE_ALLOCATOR = "naive_best_fit"

_MAX_RANKS = 4096
"""The largest tensor parallel size that is suggested."""


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


RULES: tuple[Rule, ...] = (
    _framework_against_device,
    _precision_against_device,
    memory_fit,
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
    rules = (*vendor.driver_rules(strict), *RULES, *vendor.sharing_rules(), _paddle_allocator)
    found = [finding for rule in rules for finding in rule(work, place)]
    return tuple(sorted(found, key=lambda finding: finding.effect is not Effect.BLOCK))


def blocking(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings that refuse the job."""
    return tuple(finding for finding in findings if finding.effect is Effect.BLOCK)
