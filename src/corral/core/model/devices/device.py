"""Devices, the nodes that have them, and the state of a device at one moment."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from corral.core.model.devices.health import DeviceHealth, Health, HealthSign, SignKind
from corral.core.model.devices.means import NO_LIMITS, ClientLimits, HostMeans, Means
from corral.core.model.devices.vitals import DriverError, ReadFailure, Vitals
from corral.core.model.placing.placement_rules import Resident, Taint
from corral.core.model.units import MILLI_PER_DEVICE

FIRST_VENDOR = "nvidia"
"""The vendor of devices that name none: earlier records have no vendor, and all devices were of this one."""


class DeviceState(StrEnum):
    """The state of a device for a person. Several may apply: the first in this order counts."""

    UNREADABLE = "unreadable"
    UNHEALTHY = "unhealthy"
    QUARANTINED = "quarantined"
    PROBATION = "probation"
    CORDONED = "cordoned"
    ALLOCATED = "allocated"
    RESERVED = "reserved"
    IN_USE = "in_use"
    STALE = "stale"
    SUSPECT = "suspect"
    FREE = "free"


FAST_LINKS = frozenset({"nvlink", "xgmi"})
"""The kinds of links between devices that bypass PCI."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link between two devices of a node. `kind` is "pcie", "system", or in `FAST_LINKS`; `lanes` counts NVLinks."""

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
    """A layer that makes virtual GPUs from a device (GPU-Manager, HAMi), and the CUDA version it is built for."""

    name: str
    baseline: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Device:
    """One physical accelerator, or a slice of one that is allocated like a device. Unknown values are None.

    Attributes:
        means: how jobs share it, as configured by the site.
        one_user: jobs may share it only if all belong to one Unix user.
        clients: the limits that its MPS daemon sets, if jobs share it so.
        mig_profile, parent_uuid: the profile of a slice, and the device that it is cut from; None for a physical
            device.
        slice_milli: the part of that device that a slice counts as, in milli-GPU.
        replica: it is one of several replicas that a cluster's device plugin makes of one device. A job that has a
            whole replica still shares the device.
        offered_as: the names of resources by which its cluster gives it to pods; () if it is given in no such way.
        vendor: its vendor, by the name in `corral.vendors`.
        files: the device files through which a process reaches it and no other device; () if they are unknown.
        power_limit_mw: its power limit when no job has set another one.
        power_range_mw: the least and the greatest power limit that its driver accepts.
        power_fixed: why jobs cannot set its power limit here; None if they can, within `power_range_mw`.
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
    clients: ClientLimits = NO_LIMITS
    mig_profile: str | None = None
    parent_uuid: str | None = None
    slice_milli: int | None = None
    replica: bool = False
    virtual: VirtualLayer | None = None
    vendor: str = FIRST_VENDOR
    files: tuple[str, ...] = ()
    power_range_mw: tuple[int, int] | None = None
    power_fixed: str | None = None
    offered_as: tuple[str, ...] = ()

    @property
    def settable_power_mw(self) -> tuple[int, int] | None:
        """The least and the greatest power limit that a job may set; None if it can set none."""
        return None if self.power_fixed is not None or self.is_part else self.power_range_mw

    @property
    def is_part(self) -> bool:
        """Whether the device is a slice or a replica: a job that has all of it still shares the device behind it."""
        return self.mig_profile is not None or self.means is Means.MIG or self.replica

    def held_by(self, share_milli: int) -> Means:
        """The means by which a job holds this share. A whole device is exclusive, whatever its setting for sharing."""
        return Means.EXCLUSIVE if share_milli == MILLI_PER_DEVICE and not self.is_part else self.means


class HostUse(NamedTuple):
    """The amounts of a host that are in use outside Corral's jobs."""

    cpu_milli: int = 0
    memory_mib: int = 0
    disk_mib: int = 0


NOTHING_TAKEN = HostUse()


@dataclass(frozen=True, slots=True)
class Node:
    """A host with its devices, CPU and memory. `labels` is sorted by key.

    `disk_mib` is how much of its disk jobs may fill, 0 if unknown.
    `host_means` says how strictly jobs are held to their CPUs and memory.
    `numa_cpus` are the CPUs of the NUMA nodes to which jobs are bound, () if none are bound.
    `taints` keep off jobs that do not tolerate them. `most_members` limits the members of jobs at a time; None is no
    limit. `others` are workloads that are not jobs; placement rules see them.
    `taken` are the amounts in use outside jobs, if something counts them. `cordoned` is why the node's cluster starts
    nothing on it; None if the cluster does, or if there is no cluster.
    `boot_id` is the kernel's identifier of the boot: a process compares it to find out whether it runs on this node.
    None if unknown.
    `no_docker` is why no container of the host's Docker can run there, a sentence without its full stop. None if one
    can, or if that is unknown.
    `kept_to` is why a cluster's node gives its devices to pods in fewer ways than its software could, a clause. None
    if nothing limits it.
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
    no_docker: str | None = None
    kept_to: str | None = None


class NodeStatus(StrEnum):
    """The status of a node for a person. Several may apply: the first in this order counts, and READY is last.

    Only on a ready node can anything start, even a job without a device.
    """

    GONE = "gone"
    SILENT = "silent"
    DRAINING = "draining"
    CORDONED = "cordoned"
    READY = "ready"


@dataclass(frozen=True, slots=True)
class NodeCordon:
    """A cordon: an administrator keeps jobs from starting on a node.

    Attributes:
        reason: why, "" if none was given.
        by: the administrator.
        at: since when, Unix seconds.
        draining: running jobs are to end too; until they have, the node is draining.
        deadline: when the jobs that still run are stopped and requeued, Unix seconds; None is never.
    """

    reason: str
    by: str
    at: float
    draining: bool = False
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class Silence:
    """The reason why nothing starts on a node that the server cannot reach.

    Attributes:
        since: when the node last answered, or when it came back, Unix seconds.
        reason: a sentence for a person, without its full stop.
        gone: the silence has lasted so long that the node's jobs are given up.
        answers: the node answers again, and its state is being compared with the ledger.
    """

    since: float
    reason: str
    gone: bool = False
    answers: bool = False


SERVICE = "mps"
"""Stands in place of a job's id for processes that Corral runs for all jobs on a device: the MPS daemon."""


@dataclass(frozen=True, slots=True)
class ContainerOfOthers:
    """A container, none of Corral's, under the names of its host's Docker daemon. Others chose both strings."""

    name: str
    image: str

    def __str__(self) -> str:
        return f"container {self.name} ({self.image})"


@dataclass(frozen=True, slots=True)
class DeviceProcess:
    """A process that uses a device: the driver's report, with what the host knows of the process.

    `started_at` is in Unix seconds. `container` is the id found in its cgroup. `runs_in` is that container by Docker's
    names, None if Docker has not answered. `job_id` is the job that it belongs to, or `SERVICE`. `utilization_pct` is
    the part of the recent time in which it used the device.
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
        """The container in which the process runs, else the process's user; None if neither is known."""
        return str(self.runs_in) if self.runs_in is not None else self.user


@dataclass(frozen=True, slots=True)
class HoldingPod:
    """A pod, none of Corral's, to which a cluster has given a device.

    `owner` is the object that made it, such as "Job/train", None if there is none. `created_at` is in Unix seconds.
    """

    namespace: str
    name: str
    owner: str | None = None
    created_at: float | None = None

    def __str__(self) -> str:
        return f"pod {self.namespace}/{self.name}" + (f" ({self.owner})" if self.owner else "")


@dataclass(frozen=True, slots=True)
class HeldPart:
    """A part of a device that a pod has, none of Corral's: milli-GPU, and MiB, None for the memory of its share."""

    pod: HoldingPod
    share_milli: int
    memory_mib: int | None = None

    def mib_of(self, device_mib: int | None) -> int:
        """The MiB that the part takes of a device with this memory; 0 if neither is known."""
        if self.memory_mib is not None:
            return self.memory_mib
        return (device_mib or 0) * self.share_milli // MILLI_PER_DEVICE


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """One measurement of one device, which may be lost. A field that could not be read is None, never 0.

    `taken_at` is in Unix seconds. `fault` says why the device could not be read at all; None if it was read.
    `processes` is None if the driver would not list them: then it is not known whether the device is unused.
    `ecc_errors` counts uncorrectable memory errors since the driver was loaded; None if ECC is off.
    `memory_bandwidth_pct` is the part of the time in which memory was read or written. `xid` is the number of the last
    Xid error since Corral began to listen to the driver's events, 0 if there was none. `throttle` has NVML's bits of
    why the clocks are not higher (`throttle_reasons` names them); 0 is no reason. `metered` is false if nothing
    measures the device: then only its holder is known. `pod` is a pod, none of Corral's, that has the device. `parts`
    are the parts of it that such pods have. `illness` is why its cluster considers it unhealthy, None if it does not.
    `counted` is true if a cluster counts its devices: then the device is free if nothing holds it, whatever was
    measured. `failure` is the extent of the fault. `errors` are the last errors that the driver has reported, oldest
    first; each stays here for some minutes. `vitals` are readings of its health, of an earlier moment. `signs` are the
    signs of a fault that follow from all of these.
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
    failure: ReadFailure | None = None
    errors: tuple[DriverError, ...] = ()
    vitals: Vitals | None = None
    signs: tuple[HealthSign, ...] = ()
    parts: tuple[HeldPart, ...] = ()


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
"""Reasons that are not throttling: nothing runs, or somebody chose these clocks."""


def throttle_reasons(throttle: int) -> tuple[str, ...]:
    """The names of the causes that throttle a device, such as its power or its heat; () if nothing does."""
    return tuple(name for name, bit in CLOCK_REASONS.items() if throttle & bit and name not in _CHOSEN_REASONS)


_CLOSED_TO_ALL = {Health.QUARANTINED: DeviceState.QUARANTINED, Health.PROBATION: DeviceState.PROBATION}
"""The state of a device whose health lets nothing start on it."""

_STATES = {**_CLOSED_TO_ALL, Health.SUSPECT: DeviceState.SUSPECT}


class LastUse(NamedTuple):
    """The use of one device in percent, by its last reading."""

    utilization_pct: float
    memory_pct: float


@dataclass(frozen=True, slots=True)
class DeviceCondition:
    """The reasons that keep a device from being allocated, apart from Corral's own allocations.

    Attributes:
        unreadable: why it cannot be read, or that its sample is too old; None if it can be read.
        unhealthy: the fault by which nothing may start on it, as read now or as its cluster says; None without one.
        ill_since: when it was first seen unreadable or unhealthy; None if it is neither.
        cordoned: the administrator's reason for the cordon, None if there is none.
        strangers: processes on the device that Corral did not start.
        stale: the strangers hold memory, but have not used the device for the site's `stale_after`.
        lendable: the site counts the device as free for its remaining memory, although strangers are on it.
        memory_free_mib, utilization_pct: from the last sample; None if not readable.
        pod: the pod that has the device and is none of Corral's; None if there is none.
        use: its use, if a cluster counts its devices: it ranks nodes, because the cluster chooses among their devices.
        ill_by: the kinds of the signs by which it is unhealthy, sorted; () if there are none, or its cluster says so.
        health: its health as recorded, None if nothing is recorded; a fact, as the cordon is.
        parts: the parts of it that pods have which are none of Corral's; jobs may have the rest.
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
    use: LastUse | None = None
    ill_by: tuple[SignKind, ...] = ()
    health: DeviceHealth | None = None
    parts: tuple[HeldPart, ...] = ()

    def state(self, *, allocated: bool = False, reserved: bool = False) -> DeviceState:
        """The first state that applies; `allocated` and `reserved` say what Corral has done with the device."""
        if self.unreadable is not None:
            return DeviceState.UNREADABLE
        if self.unhealthy is not None and not self.ill_by:
            return DeviceState.UNHEALTHY
        if self.health is not None and self.health.state in _CLOSED_TO_ALL:
            return _CLOSED_TO_ALL[self.health.state]
        if self.sick:
            return DeviceState.QUARANTINED
        if self.cordoned is not None:
            return DeviceState.CORDONED
        if allocated or reserved:
            return DeviceState.ALLOCATED if allocated else DeviceState.RESERVED
        if self.strangers or self.pod is not None:
            return DeviceState.STALE if self.stale else DeviceState.IN_USE
        return DeviceState.SUSPECT if self.suspect else DeviceState.FREE

    @property
    def sick(self) -> bool:
        """Whether a fault, or a former one, keeps jobs off it, whatever else does."""
        closed = self.health is not None and self.health.state in _CLOSED_TO_ALL
        return closed or (self.unhealthy is not None and not self._is_trusted)

    @property
    def _is_trusted(self) -> bool:
        """Whether an administrator has accepted all signs by which it is unhealthy."""
        return bool(self.ill_by) and self.health is not None and set(self.ill_by) <= set(self.health.trusted)

    @property
    def suspect(self) -> bool:
        """Whether no new work with several devices may start on it."""
        return self.health is not None and self.health.state is Health.SUSPECT

    def reason(self, state: DeviceState) -> str | None:
        """The reason why the device is in `state`, for a person; None if the condition does not say."""
        if self.health is not None and state is _STATES.get(self.health.state):
            return self.health.reason
        return {
            DeviceState.UNREADABLE: self.unreadable,
            DeviceState.UNHEALTHY: self.unhealthy,
            DeviceState.QUARANTINED: self.unhealthy,
            DeviceState.CORDONED: self.cordoned or None,
        }.get(state)

    def since(self, state: DeviceState) -> float | None:
        """The time since when the device is in `state` (Unix seconds); None if the condition does not say."""
        if self.health is not None and state is _STATES.get(self.health.state):
            return self.health.since
        if state in (DeviceState.UNREADABLE, DeviceState.UNHEALTHY, DeviceState.QUARANTINED):
            return self.ill_since
        return self.strangers_since if state in (DeviceState.IN_USE, DeviceState.STALE) else None


MEMORY_WEIGHT = 0.6
"""The default weight of free memory in the availability of a device. The rest is the weight of idle time."""


def availability_score(
    memory_free_mib: int | None,
    memory_total_mib: int | None,
    utilization_pct: int | None,
    memory_weight: float = MEMORY_WEIGHT,
) -> float:
    """The availability of a device: the weighted sum of its free memory and idle time, each as a fraction. 1.0 is idle.

    0.0 if any part could not be read, or if the device has no memory: a device that cannot be read is never preferred.
    """
    if memory_free_mib is None or not memory_total_mib or utilization_pct is None:
        return 0.0
    idle = (100 - utilization_pct) / 100
    return memory_weight * memory_free_mib / memory_total_mib + (1 - memory_weight) * idle
