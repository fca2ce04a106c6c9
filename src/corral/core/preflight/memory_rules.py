"""Rules for memory: the program must fit into its grant, and must not take more."""

from collections.abc import Iterator

from corral.core.model.devices.means import Means
from corral.core.model.units import format_memory
from corral.core.ports.preflight import Effect, Finding, Place, Workload

DEFAULT_FRACTION = {"vllm": 0.9, "sglang": 0.88}
"""The fraction of device memory that each server takes by default. SGLang's varies a little with the device."""
_FRACTION_FLAG = {"vllm": "--gpu-memory-utilization", "sglang": "--mem-fraction-static"}
_CONTEXT_FLAG = {"vllm": "--max-model-len", "sglang": "--context-length"}


def granted_mib(place: Place) -> int | None:
    """The MiB that the job has of each device: its grant, else all of the device; None if neither is known."""
    return place.device_memory_mib if place.memory_mib is None else place.memory_mib


def memory_fit(work: Workload, place: Place) -> Iterator[Finding]:
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
    fraction = work.memory_fraction or DEFAULT_FRACTION.get(framework)
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
