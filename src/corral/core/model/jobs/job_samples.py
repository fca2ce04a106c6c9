"""The newest samples of each job: readings of its devices, as far as they are the job's own. Pure."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from corral.core.model.devices.device import SERVICE, DeviceProcess, DeviceSample
from corral.core.model.jobs.job import Job
from corral.core.model.placing.allocation import Allocation
from corral.core.model.view import View


class JobSample(NamedTuple):
    """A job's part of one sample of one device that it holds.

    Attributes:
        job, allocation: the job, and the allocation that holds the device.
        number: the position of the device in the allocation, from 0 in the order of its grants, each device once.
        share_milli: how much of the device the allocation holds; 1000 is the whole.
        alone: no other job or process holds or uses the device, so `sample` is the device's own.
        sample: the measurement of the job. If the job is not alone, only the utilisation and memory of its own
            processes can be known, and all other fields are None. `taken_at` is that of the device's sample,
            `memory_total_mib` always that of the device.
    """

    job: Job
    allocation: Allocation
    number: int
    share_milli: int
    alone: bool
    sample: DeviceSample


def job_samples(view: View, samples: Mapping[str, DeviceSample]) -> Iterator[JobSample]:
    """A `JobSample` for each device of each job that holds devices now, if it was sampled since the job got it.

    `samples` are the newest by UUID (`Samples.latest`). A device with a fault, or without a sample, is left out because
    nothing is known about it. A MIG slice is a device with a UUID and a sample of its own.
    """
    for allocation in view.allocations.values():
        job = view.jobs.get(allocation.job_id)
        if job is None:
            continue
        shares: dict[str, int] = {}
        for grant in allocation.placement.grants:
            shares[grant.uuid] = shares.get(grant.uuid, 0) + grant.share_milli
        for number, (uuid, share_milli) in enumerate(shares.items()):
            sample = samples.get(uuid)
            if sample is None or sample.fault is not None or sample.taken_at < allocation.created_at:
                continue
            alone = len(view.holders.get(uuid, ())) <= 1 and not _strangers(sample, job.id)
            own = sample if alone else _own_part(sample, job.id)
            yield JobSample(job, allocation, number, share_milli, alone, own)


def _strangers(sample: DeviceSample, job_id: str) -> bool:
    """Whether a process on the device is known not to belong to the job."""
    return any(process.job_id not in (job_id, SERVICE) and not _nobodys(process) for process in sample.processes or ())


def _own_part(sample: DeviceSample, job_id: str) -> DeviceSample:
    """The readings of the job's own processes on a device that others also use."""
    own = _own_processes(sample, job_id)
    used_pct = None if own is None else _total([process.utilization_pct for process in own])
    return DeviceSample(
        sample.uuid,
        sample.taken_at,
        utilization_pct=None if used_pct is None else min(used_pct, 100),
        memory_used_mib=None if own is None else _total([process.memory_mib for process in own]),
        memory_total_mib=sample.memory_total_mib,
    )


def _own_processes(sample: DeviceSample, job_id: str) -> list[DeviceProcess] | None:
    """The job's processes, None if they are not known: any process without an owner may be one of them."""
    processes = sample.processes
    if processes is None or any(_nobodys(process) for process in processes):
        return None
    if not processes and sample.utilization_pct != 0:
        # Some process uses the device, or may, and the driver does not show which.
        return None
    return [process for process in processes if process.job_id == job_id]


def _nobodys(process: DeviceProcess) -> bool:
    """Whether the process has no known owner: it runs in a container outside Corral, or has just ended."""
    return process.job_id is None and process.user is None


def _total(parts: list[int | None]) -> int | None:
    """The sum of the parts, None if a part is not known; 0 without parts."""
    return None if None in parts else sum(part for part in parts if part is not None)
