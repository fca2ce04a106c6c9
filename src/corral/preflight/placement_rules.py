"""Rules on the number of devices and on how they are shared."""

from collections.abc import Iterator

from corral.model.means import Means
from corral.model.units import count_of
from corral.model.version import dotted
from corral.preflight.driver_rules import driver_cuda
from corral.preflight.subject import Effect, Finding, Place, Workload

_MPS_COMPUTE = (7, 0)
_MPS_CUDA = (11, 5)
_PADDLE_ALLOCATOR = "naive_best_fit"

MAX_RANKS = 4096
"""The largest tensor parallel size that is suggested."""


def device_count(work: Workload, place: Place) -> Iterator[Finding]:
    """A program that starts a rank per device must have them all, and leave none idle."""
    if work.world_size is None or work.world_size == place.devices:
        return
    what = f"the program uses {count_of(work.world_size, 'GPU')} and {place.devices} would be granted"
    if work.world_size > place.devices:
        why = "its ranks find no device of their own and fail, or double up on one"
        yield Finding(Effect.BLOCK, "device-count", what, why, f"--gpus {work.world_size}")
    elif place.devices:
        why = f"{count_of(place.devices - work.world_size, 'GPU')} would be allocated and stay idle"
        yield Finding(Effect.WARN, "device-count", what, why, f"--gpus {work.world_size}")


def head_division(work: Workload, place: Place) -> Iterator[Finding]:
    """A layer's attention heads are split evenly: servers refuse a tensor parallel size that does not divide them."""
    ranks, heads = work.tensor_parallel, work.heads
    if ranks is None or not heads or heads % ranks == 0:
        return
    fits = next(one for one in range(min(ranks, heads, MAX_RANKS), 0, -1) if heads % one == 0)
    what = f"the model has {heads} attention heads and they are to be split over {ranks} GPUs"
    why = "each GPU takes as many as the others, so the server ends at once where that does not come out even"
    yield Finding(Effect.BLOCK, "head-division", what, why, f"tensor parallel size {fits} and --gpus {fits}")


def mps_rules(work: Workload, place: Place) -> Iterator[Finding]:
    """MPS: Volta or newer, a driver for CUDA 11.5 or newer, no MIG, one device a share."""
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
    """A process sees one MIG slice only, so ranks cannot talk across slices."""
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


def paddle_allocator(work: Workload, place: Place) -> Iterator[Finding]:
    """Paddle's growing allocator does not work well on a virtual or shared device."""
    if work.framework != "paddle" or not place.shared or work.allocator == _PADDLE_ALLOCATOR:
        return
    strategy = work.allocator or "auto_growth, its default"
    what = f"PaddlePaddle allocates by {strategy} on a shared device"
    why = "its growing pools clash with a limit on memory: out of memory early, and random crashes"
    yield Finding(Effect.WARN, "paddle-allocator", what, why, f"--env FLAGS_allocator_strategy={_PADDLE_ALLOCATOR}")
