"""Says why no device could ever be shared in the way that a request needs."""

from collections.abc import Sequence

from corral.core.model.devices.device import Device
from corral.core.model.devices.means import Means
from corral.core.model.jobs.job import Request
from corral.core.model.placing.fit import LEAST_MPS_MILLI, profile_matches
from corral.core.model.units import MILLI_PER_DEVICE, count_of, format_share


def sharing_lack(nodes: Sequence[Sequence[Device]], request: Request) -> str | None:
    """A sentence if the way in which the devices are shared rules the request out; None otherwise.

    `nodes` has the devices of each node that are of the models and UUIDs that the request names.
    """
    devices = [device for node in nodes for device in node]
    such = "such GPU" if request.models or request.device_uuids else "GPU here"
    if request.mig_profile is not None:
        return _slice_lack(devices, request.mig_profile)
    plain = [device for device in devices if device.mig_profile is None]
    if not plain:
        return f"a MIG slice is asked for by its profile: {_slices(devices)}" if devices else None
    if all(device.mig_enabled or device.means is Means.MIG for device in plain):
        by_mps = "MPS does not run on a MIG device, and " if request.means is Means.MPS else ""
        return f"{by_mps}every {such} is cut into MIG slices; ask for one of those: {_slices(devices)}"
    if request.means not in (None, Means.EXCLUSIVE) and all(device.means is not request.means for device in plain):
        means = sorted({device.means.value for device in plain})
        return f"--share: no {such} is shared by {request.means}; they are: {', '.join(means)}"
    if request.means is Means.EXCLUSIVE and all(device.replica for device in plain):
        return f"--share: the cluster shares every {such} among several jobs, so no job gets one alone"
    if request.whole:
        return None
    if all(device.means in (Means.EXCLUSIVE, Means.MIG) for device in plain):
        return f"every {such} is allocated whole; ask for --gpus 1 or more"
    too_small = not request.share_of_memory and request.share_milli < LEAST_MPS_MILLI
    if too_small and all(device.means is Means.MPS for device in plain if request.means in (None, device.means)):
        return f"a share of a GPU on MPS is at least {format_share(LEAST_MPS_MILLI)}; ask for that"
    return _split_lack(nodes, request.split_milli or 0)


def _slice_lack(devices: Sequence[Device], wanted: str) -> str | None:
    offered = [device.mig_profile for device in devices if device.mig_profile is not None]
    if any(profile_matches(wanted, profile) for profile in offered):
        return None
    there = f"they offer {', '.join(sorted(set(offered)))}" if offered else "no device is sliced (see `corral mig`)"
    return f"--mig: no device has a slice {wanted}; {there}"


def _slices(devices: Sequence[Device]) -> str:
    profiles = {device.mig_profile for device in devices if device.mig_profile is not None}
    profiles |= {partition.profile for device in devices for partition in device.partitions}
    return ", ".join(f"--mig {profile}" for profile in sorted(profiles)) or "there is none yet"


def _split_lack(nodes: Sequence[Sequence[Device]], split_milli: int) -> str | None:
    """A sentence if no node has enough splittable devices for a share above 1; None otherwise."""
    if split_milli <= MILLI_PER_DEVICE:
        return None
    plain = [[device for device in node if device.mig_profile is None] for node in nodes]
    most = max(sum(device.means is Means.TIMESLICE for device in node) for node in plain)
    if split_milli <= most * MILLI_PER_DEVICE:
        return None
    if any(device.means is not Means.TIMESLICE for node in plain for device in node):
        shared = f"only GPUs shared by timeslice are split: {count_of(most, 'GPU')}"
        gpus = count_of(max(1, most), "GPU")
        return f"no node has so much to split ({shared}); the most you can ask for is {gpus}, or whole ones"
    return f"no node has so much; the most you can ask for is {count_of(most, 'GPU')} on one node"
