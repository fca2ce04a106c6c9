"""Placements and allocations. A placement is a choice of devices; an allocation is a placement committed to a job."""

from dataclasses import dataclass

from corral.core.model.devices.means import Enforcement
from corral.core.model.units import MILLI_PER_DEVICE


@dataclass(frozen=True, slots=True)
class Grant:
    """A part of one device: a share in milli-GPU and, if granted, memory in MiB.

    `tenant` is the user on a device that serves one user at a time, and for a packable job the key of those with whom
    it shares the device (`corral.core.model.runs.packing.pack_key`). It is None for every other job.
    `counts_milli` is the amount for quotas and usage, None if that is the share.
    """

    uuid: str
    share_milli: int
    memory_mib: int | None = None
    tenant: str | None = None
    counts_milli: int | None = None

    @property
    def counted_milli(self) -> int:
        """The milli-GPU that the grant counts as, its largest part of the device (`corral.core.model.queues.quota`)."""
        return self.share_milli if self.counts_milli is None else self.counts_milli


@dataclass(frozen=True, slots=True)
class Member:
    """The grants of one member of a gang, on one node."""

    node: str
    grants: tuple[Grant, ...]
    cpu_milli: int = 0
    host_memory_mib: int = 0
    disk_mib: int = 0


@dataclass(frozen=True, slots=True)
class Placement:
    """The devices chosen for each member of a job. A job without a gang has one member."""

    members: tuple[Member, ...]

    @property
    def grants(self) -> tuple[Grant, ...]:
        """Every grant of every member, in order."""
        return tuple(grant for member in self.members for grant in member.grants)

    @property
    def uuids(self) -> tuple[str, ...]:
        """The devices, in order."""
        return tuple(grant.uuid for grant in self.grants)


@dataclass(frozen=True, slots=True)
class Promise:
    """A start promised to a waiting job: these devices are kept free for it.

    It is to start at `start_at` (Unix seconds) at the latest.
    """

    job_id: str
    placement: Placement
    start_at: float


@dataclass(frozen=True, slots=True)
class ChosenDevice:
    """A device as it was at the moment of choice."""

    index: int
    name: str
    memory_free_mb: int | None
    utilization_percent: int | None
    availability_score: float


@dataclass(frozen=True, slots=True)
class GpuInfo:
    """The record of devices in each allocation. Its field names are the autotuner's, whose `mb` are MiB."""

    count: int
    indices: tuple[int, ...]
    allocation_method: str
    details: tuple[ChosenDevice, ...]


@dataclass(frozen=True, slots=True)
class Allocation:
    """A placement committed to a job.

    `attempt` counts the job's launches from 1. `reserved` marks an allocation that a person's session holds.
    `enforcement` says how strictly the job is held to its grants, on the weakest of its devices, and to its part of the
    host. It is None if the job has neither.
    """

    id: str
    job_id: str
    user: str
    placement: Placement
    created_at: float
    attempt: int = 1
    reserved: bool = False
    gpu_info: GpuInfo | None = None
    enforcement: Enforcement | None = None

    @property
    def gpus(self) -> float:
        """The number of GPUs that the allocation counts as, with parts as fractions."""
        return sum(grant.counted_milli for grant in self.placement.grants) / MILLI_PER_DEVICE
