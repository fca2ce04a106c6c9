"""Rules on devices that are shared through MPS and MIG."""

from collections.abc import Iterator

from corral.core.model.devices.means import Means
from corral.core.model.version import dotted
from corral.core.ports.preflight import Effect, Finding, Place, Workload
from corral.vendors.nvidia.driver_rules import driver_cuda

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
