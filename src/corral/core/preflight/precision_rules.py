"""Rules for number formats: the device must support the format that the program asks for."""

from collections.abc import Iterator

from corral.core.model.version import dotted
from corral.core.ports.preflight import Effect, Finding, Place, Workload
from corral.core.preflight.precision import SUPPORT, canonical

_FRAMEWORK_NEEDS = {"vllm": (7, 0), "sglang": (7, 5)}
"""The lowest compute capability that each framework supports, by its installation page."""


def precision_against_device(work: Workload, place: Place) -> Iterator[Finding]:
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


def framework_against_device(work: Workload, place: Place) -> Iterator[Finding]:
    """Check that the framework supports the device's compute capability."""
    least = _FRAMEWORK_NEEDS.get(work.framework or "")
    if least is None or place.compute is None or place.compute >= least:
        return
    what = f"{work.framework} would run on {place.model}, compute capability {dotted(place.compute)}"
    why = f"{work.framework} supports {dotted(least)} and newer"
    yield Finding(Effect.BLOCK, "framework", what, why, f"ask for a newer device: --min-compute {dotted(least)}")
