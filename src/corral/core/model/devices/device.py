"""Devices and the nodes that hold them, and what is known of a device at one moment."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from corral.core.model.devices.means import HostMeans, Means
from corral.core.model.placing.placement_rules import Resident, Taint
from corral.core.model.units import MILLI_PER_DEVICE

FIRST_VENDOR = "nvidia"
"""The maker of devices that name none: before there were others, all were of this one."""


class DeviceState(StrEnum):
    """What a person may expect of a device; the first that applies, in this order."""

    UNREADABLE = "unreadable"
    UNHEALTHY = "unhealthy"
    CORDONED = "cordoned"
    ALLOCATED = "allocated"
    RESERVED = "reserved"
    IN_USE = "in_use"
    STALE = "stale"
    FREE = "free"


FAST_LINKS = frozenset({"nvlink", "xgmi"})
"""Links between devices that go past PCI."""


@dataclass(frozen=True, slots=True)
class Link:
    """A path between devices of a node. `kind` is one of `FAST_LINKS`, "pcie" or "system"; `lanes` counts NVLinks."""

    peer_uuid: str
    kind: str
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class Partition:
    """A hardware slice of a device (a MIG instance), with a UUID of its own; `files` are as those of a device."""

    uuid: str
    profile: str
    memory_mib: int | None
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VirtualLayer:
    """A layer that makes virtual GPUs of a device, such as GPU-Manager or HAMi, and the CUDA that it is built for."""

    name: str
    baseline: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Device:
    """One physical accelerator, or a slice of one that is allocated like a device. What is not known is None.

    Attributes:
        means: how jobs meet on it, as the site has configured.
        one_user: several jobs meet on it only while they are one Unix user's.
        mig_profile, parent_uuid: of a slice, and the device that it is cut from; None for a physical device.
        slice_milli: what a slice counts as of that device.
        replica: one of several that a cluster's device plugin makes of one device: whoever has it whole shares that.
        vendor: its maker, as `corral.vendors` names it.
        files: the device files by which a container reaches it, where its vendor gives these; else ().
    """

    uuid: str
    index: int
    model: str
    memory_mib: int | None
    compute_capability: tuple[int, int] | None = None
    pci_bus_id: str | None = None
    numa_node: int | None = None
    mig_enabled: bool | None = None
    partitions: tuple[Partition, ...] = ()
    links: tuple[Link, ...] = ()
    power_limit_mw: int | None = None
    persistence: bool | None = None
    ecc: bool | None = None
    means: Means = Means.TIMESLICE
    one_user: bool = False
    mig_profile: str | None = None
    parent_uuid: str | None = None
    slice_milli: int | None = None
    replica: bool = False
    virtual: VirtualLayer | None = None
    vendor: str = FIRST_VENDOR
    files: tuple[str, ...] = ()

    @property
    def is_part(self) -> bool:
        """Whether it is a slice or a replica: who has all of it still shares the device that it is a part of."""
        return self.mig_profile is not None or self.means is Means.MIG or self.replica

    def held_by(self, share_milli: int) -> Means:
        """The means by which a job has so much of it: a whole device is had alone, however it is shared else."""
        return Means.EXCLUSIVE if share_milli == MILLI_PER_DEVICE and not self.is_part else self.means


class HostUse(NamedTuple):
    """What others than Corral's jobs take of a host."""

    cpu_milli: int = 0
    memory_mib: int = 0
    disk_mib: int = 0


NOTHING_TAKEN = HostUse()


@dataclass(frozen=True, slots=True)
class Node:
    """A host with its devices, CPU and memory. `labels` is sorted by key.

    `disk_mib` is what its jobs may fill of its disk, 0 where that is not known.
    `host_means` says who holds the jobs that it runs to their CPUs and memory.
    `numa_cpus` are the CPUs of its NUMA nodes that jobs are bound to, () where none are.
    `taints` keep off jobs that do not tolerate them, `most_members` is how many members of jobs it takes at a time
    (None is any number), and `others` is what runs there that is no job, as rules know it.
    `taken` is what others than jobs have of it, where somebody counts that. `cordoned` is why the cluster that it is of
    starts nothing on it; None where it does, or there is no such cluster.
    `boot_id` is the kernel's identifier of its boot, by which a process knows that it runs there; None where nobody
    says it.
    """

    name: str
    devices: tuple[Device, ...]
    cpu_milli: int
    memory_mib: int
    labels: tuple[tuple[str, str], ...] = ()
    driver_version: str | None = None
    cuda_version: tuple[int, int] | None = None
    host_means: HostMeans = field(default_factory=HostMeans)
    disk_mib: int = 0
    numa_cpus: tuple[tuple[int, tuple[int, ...]], ...] = ()
    taints: tuple[Taint, ...] = ()
    most_members: int | None = None
    others: tuple[Resident, ...] = ()
    taken: HostUse = NOTHING_TAKEN
    cordoned: str | None = None
    boot_id: str | None = None


class NodeStatus(StrEnum):
    """What a person may expect of a node; the first that applies, in this order, READY being last.

    On all but a ready node nothing starts, not even a job without a device.
    """

    GONE = "gone"
    SILENT = "silent"
    DRAINING = "draining"
    CORDONED = "cordoned"
    READY = "ready"


@dataclass(frozen=True, slots=True)
class NodeCordon:
    """An administrator keeps jobs from starting on a node.

    Attributes:
        reason: why, "" where nothing was said.
        by: the administrator.
        at: since when, Unix seconds.
        draining: what runs there is to end, and until it has the node is draining.
        deadline: when what still runs is stopped and goes back to its queue, Unix seconds; None is never.
    """

    reason: str
    by: str
    at: float
    draining: bool = False
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class Silence:
    """Why nothing starts on a node that the server has no contact with.

    Attributes:
        since: when it was last heard, or when it came back, Unix seconds.
        reason: a sentence for a person, without its full stop.
        gone: so long that its jobs are given up.
        answers: it answers again, and is being compared with the ledger.
    """

    since: float
    reason: str
    gone: bool = False
    answers: bool = False


SERVICE = "mps"
"""What Corral runs for all jobs on a device (the daemon they meet in) belongs to this in place of a job's id."""


@dataclass(frozen=True, slots=True)
class ContainerOfOthers:
    """A container, none of Corral's, as the Docker daemon of its host calls it. Others chose both words."""

    name: str
    image: str

    def __str__(self) -> str:
        return f"container {self.name} ({self.image})"


@dataclass(frozen=True, slots=True)
class DeviceProcess:
    """A process that uses a device, as the driver reports it, joined to what the host knows of it.

    `started_at` is in Unix seconds; `container` is the id found in its cgroup, `runs_in` what Docker calls that, None
    where Docker has not told; `job_id` the job it belongs to, or `SERVICE`. `utilization_pct` is how much of the time
    lately it used the device.
    """

    pid: int
    memory_mib: int | None = None
    user: str | None = None
    command: str | None = None
    started_at: float | None = None
    cgroup: str | None = None
    container: str | None = None
    job_id: str | None = None
    utilization_pct: int | None = None
    runs_in: ContainerOfOthers | None = None

    @property
    def owner(self) -> str | None:
        """The container it runs in, else its user; None where neither is known."""
        return str(self.runs_in) if self.runs_in is not None else self.user


@dataclass(frozen=True, slots=True)
class HoldingPod:
    """A pod, none of Corral's, that a cluster has given a device to.

    `owner` is what made it, such as "Job/train", None where nothing did; `created_at` is in Unix seconds.
    """

    namespace: str
    name: str
    owner: str | None = None
    created_at: float | None = None

    def __str__(self) -> str:
        return f"pod {self.namespace}/{self.name}" + (f" ({self.owner})" if self.owner else "")


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """One lossy measurement of one device. A field that could not be read is None, never 0.

    `taken_at` is in Unix seconds. `fault` says why the device could not be read at all; None when it was read.
    `processes` is None when the driver would not list them: such a device is not known to be unused.
    `ecc_errors` counts memory errors beyond correction since the driver was loaded; None where ECC is off.
    `memory_bandwidth_pct` is the part of the time in which memory was read or written.
    `xid` is the number of the last Xid error since the driver's events were first listened to, 0 before one.
    `throttle` is why the clocks are not higher, NVML's bits (`throttle_reasons` names them); 0 is no reason.
    `metered` is false of a device that nothing reads: of it only who was given it is known. `pod` is the pod of
    somebody else that it was given to. `illness` is why its cluster takes it for sick, None where it does not.
    `counted` is true where a cluster counts its devices: one is free if nobody was given it, whatever is read of it.
    """

    uuid: str
    taken_at: float
    utilization_pct: int | None = None
    memory_used_mib: int | None = None
    memory_free_mib: int | None = None
    memory_total_mib: int | None = None
    temperature_c: int | None = None
    power_mw: int | None = None
    processes: tuple[DeviceProcess, ...] | None = None
    ecc_errors: int | None = None
    fault: str | None = None
    memory_bandwidth_pct: int | None = None
    sm_clock_mhz: int | None = None
    mem_clock_mhz: int | None = None
    xid: int | None = None
    throttle: int | None = None
    metered: bool = True
    pod: HoldingPod | None = None
    illness: str | None = None
    counted: bool = False


CLOCK_REASONS = {
    "idle": 0x1,
    "clocks_setting": 0x2,
    "power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal": 0x20,
    "hw_thermal": 0x40,
    "power_brake": 0x80,
    "display_clocks": 0x100,
}
"""NVML's bits of the reasons why a device's clocks are not higher."""

_CHOSEN_REASONS = frozenset({"idle", "clocks_setting", "sync_boost", "display_clocks"})
"""Clocks that are so because nothing runs, or because somebody set them so: no throttling."""


def throttle_reasons(throttle: int) -> tuple[str, ...]:
    """The names of what throttles a device: its power, its heat, or the host's power supply. () where nothing does."""
    return tuple(name for name, bit in CLOCK_REASONS.items() if throttle & bit and name not in _CHOSEN_REASONS)


@dataclass(frozen=True, slots=True)
class DeviceCondition:
    """What keeps a device from being allocated, apart from what Corral itself has allocated.

    Attributes:
        unreadable: why it cannot be read (or its sample is too old), None when it can.
        unhealthy: why it is taken for sick, None when it is well.
        ill_since: when it was first seen to be so, unreadable or unhealthy; None when it is neither.
        cordoned: the administrator's reason for the cordon, None when it is not.
        strangers: processes on it that Corral did not start.
        stale: strangers hold memory but have not used the device for the site's `stale_after`.
        lendable: the site counts the device, though strangers are on it, as free for the memory it has left.
        memory_free_mib, utilization_pct: as last sampled; None when not readable.
        pod: a pod of somebody else that has it.
    """

    uuid: str
    unreadable: str | None = None
    unhealthy: str | None = None
    cordoned: str | None = None
    strangers: tuple[DeviceProcess, ...] = ()
    strangers_since: float | None = None
    stale: bool = False
    lendable: bool = False
    memory_free_mib: int | None = None
    utilization_pct: int | None = None
    ill_since: float | None = None
    pod: HoldingPod | None = None

    def state(self, *, allocated: bool = False, reserved: bool = False) -> DeviceState:
        """The first state that applies; `allocated` and `reserved` say what Corral has allocated."""
        if self.unreadable is not None:
            return DeviceState.UNREADABLE
        if self.unhealthy is not None:
            return DeviceState.UNHEALTHY
        if self.cordoned is not None:
            return DeviceState.CORDONED
        if allocated or reserved:
            return DeviceState.ALLOCATED if allocated else DeviceState.RESERVED
        if self.strangers or self.pod is not None:
            return DeviceState.STALE if self.stale else DeviceState.IN_USE
        return DeviceState.FREE

    def reason(self, state: DeviceState) -> str | None:
        """Why the device is in `state`, for a person; None where the condition does not know it."""
        return {
            DeviceState.UNREADABLE: self.unreadable,
            DeviceState.UNHEALTHY: self.unhealthy,
            DeviceState.CORDONED: self.cordoned or None,
        }.get(state)

    def since(self, state: DeviceState) -> float | None:
        """Since when the device is in `state`, Unix seconds, where the condition knows it."""
        if state in (DeviceState.UNREADABLE, DeviceState.UNHEALTHY):
            return self.ill_since
        return self.strangers_since if state in (DeviceState.IN_USE, DeviceState.STALE) else None


MEMORY_WEIGHT = 0.6
"""What free memory counts in the availability of a device where its site says nothing; the rest is for idle time."""


def availability_score(
    memory_free_mib: int | None,
    memory_total_mib: int | None,
    utilization_pct: int | None,
    memory_weight: float = MEMORY_WEIGHT,
) -> float:
    """Free memory and idle utilisation, each as a fraction, weighed so that 1.0 is wholly idle.

    0.0 when any part could not be read, or the device has no memory: what cannot be read is never preferred.
    """
    if memory_free_mib is None or not memory_total_mib or utilization_pct is None:
        return 0.0
    idle = (100 - utilization_pct) / 100
    return memory_weight * memory_free_mib / memory_total_mib + (1 - memory_weight) * idle
