"""What the newest samples say of each job: of the devices that it holds, as far as the readings are its own. Pure."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from corral.core.model.devices.device import SERVICE, DeviceProcess, DeviceSample
from corral.core.model.jobs.job import Job
from corral.core.model.placing.allocation import Allocation
from corral.core.model.view import View


class JobSample(NamedTuple):
    """A job's part of one sample of one device that it holds.

    Attributes:
        job, allocation: whose, and by what it holds the device.
        number: which of the allocation's devices it is, counted from 0 in the order of its grants, each once.
        share_milli: how much of the device the allocation holds; 1000 is the whole.
        alone: nobody else holds or uses the device, so that `sample` is the device's own.
        sample: what was measured of the job. Where the job is not alone only its utilisation and memory can be known,
            of its own processes, and what is not known is None. `taken_at` is the sample's, `memory_total_mib` always
            that of the device.
    """

    job: Job
    allocation: Allocation
    number: int
    share_milli: int
    alone: bool
    sample: DeviceSample


def job_samples(view: View, samples: Mapping[str, DeviceSample]) -> Iterator[JobSample]:
    """One for each device of each job that holds devices now, and was sampled since it got them.

    `samples` are the newest by UUID (`Samples.latest`). A device at fault, or that was not sampled yet, is left out: of
    it nothing is known. A MIG slice is a device with a UUID and a sample of its own.
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
    """Whether a process on the device is known to be somebody else's."""
    return any(process.job_id not in (job_id, SERVICE) and not _nobodys(process) for process in sample.processes or ())


def _own_part(sample: DeviceSample, job_id: str) -> DeviceSample:
    """What the job's own processes have of a device that others are on, too."""
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
    """The job's processes, None where they are not known: any of those that nobody knows may be one."""
    processes = sample.processes
    if processes is None or any(_nobodys(process) for process in processes):
        return None
    if not processes and sample.utilization_pct != 0:
        # Somebody uses the device, or may, and the driver does not show who.
        return None
    return [process for process in processes if process.job_id == job_id]


def _nobodys(process: DeviceProcess) -> bool:
    """Whether the host does not know the process: it lives in a container of another, or has just ended."""
    return process.job_id is None and process.user is None


def _total(parts: list[int | None]) -> int | None:
    """The sum, None where a part is not known; of no process it is 0."""
    return None if None in parts else sum(part for part in parts if part is not None)
