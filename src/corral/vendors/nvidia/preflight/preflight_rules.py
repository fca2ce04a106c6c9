"""Preflight rules for NVIDIA's devices: driver, runtime and device must support each other, MPS and MIG the program.

Sources: NVIDIA's CUDA Compatibility guide and release notes.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from corral.core.model.devices.means import Means
from corral.core.model.version import Version, dotted, version_tuple
from corral.core.ports.preflight import Effect, Finding, Place, Workload
from corral.vendors.nvidia.compatibility import (
    architecture_of,
    cuda_of_driver,
    driver_of_cuda,
    driver_text,
    least_family_driver,
)
from corral.vendors.nvidia.preflight.image_names import DISABLE, may_hold
from corral.vendors.vendor import Rule

_FIRST_MINOR_COMPATIBLE = 11
_SHOWN_CHARACTERS = 120
_MANAGER_LIMIT: Version = (12, 4)
"""GPU-Manager's virtual GPUs intercept CUDA below this version."""


def driver_cuda(place: Place) -> Version | None:
    """The CUDA version of the driver, as reported, or else derived from the driver's version."""
    return place.cuda or (cuda_of_driver(place.driver) if place.driver else None)


def driver_against_runtime(work: Workload, place: Place, *, strict: bool) -> Iterator[Finding]:
    """The runtime must not be of a newer major version than the driver; a newer minor version works since CUDA 11."""
    cuda = driver_cuda(place)
    if work.runtime is None or cuda is None:
        return
    rule = "driver-runtime"
    what = f"the program brings CUDA {dotted(work.runtime)} and the driver is for CUDA {dotted(cuda)}"
    fix = f"{_install_for(cuda)}; or have an administrator install driver {_driver_for(work.runtime)} or newer"
    if work.runtime[0] > cuda[0] or (work.runtime > cuda and work.runtime[0] < _FIRST_MINOR_COMPATIBLE):
        why = "a driver runs runtimes up to its own version; this one ends in CUDA_ERROR_UNKNOWN (999) or error 35"
        yield Finding(Effect.BLOCK, rule, what, why, fix)
    elif work.runtime > cuda:
        family = least_family_driver(work.runtime[0])
        driver = version_tuple(place.driver)
        if family is not None and driver is not None and driver < family:
            why = f"newer minors of CUDA {work.runtime[0]} need driver {driver_text(family)}; here is {place.driver}"
            yield Finding(Effect.BLOCK, rule, what, why, fix)
        elif strict:
            yield Finding(Effect.BLOCK, rule, what, "this site wants the driver no older than the runtime", fix)
        else:
            why = "works within a major version, save for code compiled at start (CUDA_ERROR_UNSUPPORTED_PTX_VERSION)"
            yield Finding(Effect.WARN, rule, what, why, fix)
    elif cuda[0] - work.runtime[0] > 1:
        why = "NVIDIA supports a runtime one major version behind the driver; further back it may malfunction"
        yield Finding(Effect.WARN, rule, what, why, f"{_install_for(cuda)}; or one for CUDA {cuda[0] - 1}")


def driver_condition(work: Workload, place: Place) -> Iterator[Finding]:
    """The driver must meet the condition of the image: otherwise NVIDIA's runtime does not start the container."""
    condition = work.driver_condition
    if condition is None or may_hold(condition, place):
        return
    here = [] if place.driver is None else [f"driver {place.driver}"]
    if (cuda := driver_cuda(place)) is not None:
        here.append(f"CUDA {dotted(cuda)}")
    if place.compute is not None:
        here.append(f"compute capability {dotted(place.compute)}")
    shown = condition if len(condition) <= _SHOWN_CHARACTERS else f"{condition[:_SHOWN_CHARACTERS]}..."
    what = f"the image needs {shown} and {place.model} has {', '.join(here)}"
    why = "NVIDIA's container runtime refuses to start it"
    instead = "use an image for an older CUDA, or a node with a newer driver"
    yield Finding(Effect.BLOCK, "image-driver", what, why, f"{instead}; --env {DISABLE}=1 where it is known to work")


def _install_for(cuda: Version) -> str:
    return f"install a build for CUDA {dotted(cuda)} or older (tagged cu{cuda[0]}{cuda[1]})"


def _driver_for(runtime: Version) -> str:
    driver = driver_of_cuda(runtime) or least_family_driver(runtime[0])
    return f"for CUDA {dotted(runtime)}" if driver is None else driver_text(driver)


def virtual_layer(work: Workload, place: Place) -> Iterator[Finding]:
    """The layer that makes virtual GPUs must also support the runtime. A whole device does not use the layer."""
    layer, runtime, cuda = place.virtual, work.runtime, driver_cuda(place)
    if layer is None or not place.shared:
        return
    whole = "or ask for a whole GPU, which does without the layer: --gpus 1"
    if place.mig:
        why = f"{layer.name} cannot divide a MIG device"
        yield Finding(Effect.BLOCK, "virtual-layer", f"{place.model} is in MIG mode", why, "use --mig with a profile")
    if runtime is None:
        return
    what = f"the program brings CUDA {dotted(runtime)} and {layer.name} is built for CUDA {dotted(layer.baseline)}"
    if runtime > layer.baseline:
        why = f"{layer.name} must be at least as new as the runtime, or calls go past it (CUDA_ERROR_ILLEGAL_ADDRESS)"
        yield Finding(Effect.BLOCK, "virtual-layer", what, why, f"{_install_for(layer.baseline)}; {whole}")
    elif len({runtime[0], layer.baseline[0], *((cuda[0],) if cuda else ())}) > 1:
        majors = f"{runtime[0]}, {layer.baseline[0]}" + (f" and {cuda[0]}" if cuda else "")
        why = f"runtime, {layer.name} and driver must be of one major version; they are {majors}"
        same = f"install a build for CUDA {layer.baseline[0]}, up to {dotted(layer.baseline)}"
        yield Finding(Effect.BLOCK, "virtual-layer", what, why, f"{same}; {whole}")
    elif layer.name.lower().replace("_", "-") == "gpu-manager" and runtime >= _MANAGER_LIMIT:
        why = f"its virtual GPUs support CUDA below {dotted(_MANAGER_LIMIT)} only"
        yield Finding(Effect.BLOCK, "virtual-layer", what, why, f"install a build for CUDA 12.3 or older; {whole}")


def runtime_against_device(work: Workload, place: Place) -> Iterator[Finding]:
    """The libraries of the runtime must contain code for the device's generation."""
    if work.runtime is None or place.compute is None:
        return
    architecture = architecture_of(place.compute)
    if architecture is None:
        return
    rule = "runtime-device"
    device = f"{place.model} is {architecture.name} ({dotted(place.compute)})"
    what = f"the program brings CUDA {dotted(work.runtime)} and {device}"
    if architecture.cuda_until is not None and work.runtime >= architecture.cuda_until:
        until = dotted(architecture.cuda_until)
        why = f"CUDA {until} and newer have no code for {architecture.name} (no kernel image is available)"
        before = architecture.cuda_until[0] - 1
        fix = f"install a build for CUDA {before}; or ask for a newer device: --min-compute 7.5"
        yield Finding(Effect.BLOCK, rule, what, why, fix)
    elif work.runtime < architecture.cuda_from:
        since = dotted(architecture.cuda_from)
        why = f"CUDA has code for it from {since} on; an older one runs only what can be compiled at start"
        yield Finding(Effect.WARN, rule, what, why, f"install a build for CUDA {since} or newer")


def driver_rules(*, strict: bool) -> Sequence[Rule]:
    """All rules of this module. `strict` also blocks a runtime with a newer minor version than the driver's CUDA."""
    return partial(driver_against_runtime, strict=strict), driver_condition, virtual_layer, runtime_against_device


_MPS_COMPUTE = (7, 0)
_MPS_CUDA = (11, 5)


def mps_rules(work: Workload, place: Place) -> Iterator[Finding]:
    """MPS needs Volta or newer, a driver for CUDA 11.5 or newer, no MIG, and one device for each share."""
    if place.means is not Means.MPS:
        return
    cuda = driver_cuda(place)
    instead = "--share timeslice"
    if place.compute is not None and place.compute < _MPS_COMPUTE:
        what = f"{place.model} has compute capability {dotted(place.compute)} and is shared through MPS"
        yield Finding(Effect.BLOCK, "mps", what, "MPS isolates its clients from Volta (7.0) on", instead)
    if cuda is not None and cuda < _MPS_CUDA:
        what = f"the driver is for CUDA {dotted(cuda)} and the device is shared through MPS"
        yield Finding(Effect.BLOCK, "mps", what, "limits of MPS clients need CUDA 11.5 or newer", instead)
    if place.mig:
        what = f"{place.model} is in MIG mode and would be shared through MPS"
        yield Finding(Effect.BLOCK, "mps", what, "MPS does not run on MIG slices here", "--mig with a profile")
    if place.shared and place.devices > 1:
        what = f"a share split over {place.devices} devices would be on MPS"
        why = "an MPS client's limits count for the one device of its daemon"
        yield Finding(Effect.BLOCK, "mps", what, why, "--gpus 1 or less; or --share timeslice")


def mig_rules(work: Workload, place: Place) -> Iterator[Finding]:
    """Block programs that use several slices together: a process sees only one MIG slice."""
    if place.means is not Means.MIG or (work.world_size or 1) <= 1:
        return
    what = f"the program uses {work.world_size} GPUs together and would get MIG slices"
    why = "CUDA shows a process a single slice, and NCCL does not connect slices"
    yield Finding(
        Effect.BLOCK,
        "mig",
        what,
        why,
        "ask for whole devices, or for one larger slice and tensor parallel size 1",
    )
