"""The allocation map: the allocated part of each device, by the ledger or by the resource files of running jobs."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from corral.core.model.printable import printable
from corral.core.model.units import format_share
from corral.core.model.view import View
from corral.core.sharing.resource_txt import ResourceFile

_MOST_SENTENCES = 16
"""The most sentences about the differing devices of a job. Nearly every node has fewer GPUs."""
_MOST_ID = 100


@dataclass(frozen=True, slots=True)
class Share:
    """One job's part of a device."""

    job_id: str
    user: str
    share_milli: int
    memory_mib: int | None


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """A device and the jobs on it, in the order in which they were allocated."""

    uuid: str
    jobs: tuple[Share, ...]

    @property
    def allocated_milli(self) -> int:
        return sum(job.share_milli for job in self.jobs)


def allocated_device(view: View, uuid: str) -> AllocatedDevice:
    """A device and the jobs on it, from a view."""
    holders = (view.allocations[allocation_id] for allocation_id in view.holders.get(uuid, ()))
    shares = (
        Share(holder.job_id, holder.user, grant.share_milli, grant.memory_mib)
        for holder in holders
        for grant in holder.placement.grants
        if grant.uuid == uuid
    )
    return AllocatedDevice(uuid, tuple(shares))


def alloc_map(view: View, node: str | None = None) -> dict[str, str]:
    """Allocated parts by device with two decimals, {"GPU-...": "0.80"}; devices without jobs are left out."""
    allocated: dict[str, int] = {}
    for allocation in view.allocations.values():
        for member in allocation.placement.members:
            if node is None or member.node == node:
                for grant in member.grants:
                    allocated[grant.uuid] = allocated.get(grant.uuid, 0) + grant.share_milli
    return _two_digits(allocated)


def alloc_map_of_files(files: Iterable[ResourceFile]) -> dict[str, str]:
    """Return the same map as `alloc_map`, computed from the resource files of running jobs."""
    allocated: dict[str, int] = {}
    for file in files:
        for device_id, milli in file.allocated_milli().items():
            allocated[device_id] = allocated.get(device_id, 0) + milli
    return _two_digits(allocated)


def gpu_alloc_map(amounts: Mapping[str, str]) -> str:
    """Return the map as the JSON string for `gpu_alloc_map` in GraphQL."""
    return json.dumps(amounts)


def disagreements(ledger: Mapping[str, Mapping[str, int]], files: Mapping[str, ResourceFile]) -> tuple[str, ...]:
    """The differences between ledger and resource files, one sentence each, in order of job id; () if there are none.

    Both arguments are by job id. `ledger` has the milli-GPU of each device that is allocated to the job.
    """
    found = []
    for job_id in sorted({*ledger, *files}):
        granted, written = ledger.get(job_id), files.get(job_id)
        if granted is None:
            found.append(f"job {job_id} has a resource file and no allocation in the ledger; the ledger counts")
        elif written is None:
            if granted:
                found.append(f"job {job_id} has an allocation and no resource file; the ledger counts")
        else:
            found += _device_differences(job_id, granted, written.allocated_milli(with_slices=True))
    return tuple(found)


def _device_differences(job_id: str, granted: Mapping[str, int], written: Mapping[str, int]) -> list[str]:
    """A sentence for each differing device, and one for the rest of many: a job may write a long file itself."""
    differing = [uuid for uuid in sorted({*granted, *written}) if granted.get(uuid, 0) != written.get(uuid, 0)]
    found = [
        f"job {job_id} holds {format_share(granted.get(uuid, 0))} of {printable(uuid[:_MOST_ID])} by the ledger "
        f"and {format_share(written.get(uuid, 0))} by its resource file; the ledger counts"
        for uuid in differing[:_MOST_SENTENCES]
    ]
    if len(differing) > _MOST_SENTENCES:
        more = len(differing) - _MOST_SENTENCES
        found.append(f"job {job_id}: ledger and resource file differ in {more} devices more; the ledger counts")
    return found


def _two_digits(milli_by_device: Mapping[str, int]) -> dict[str, str]:
    return {
        uuid: f"{milli // 1000}.{milli % 1000 // 10:02d}" for uuid, milli in sorted(milli_by_device.items()) if milli
    }
