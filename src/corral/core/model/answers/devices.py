"""Answers about devices, their holders, and changes of their slices."""

from dataclasses import dataclass

from corral.core.model.row_traits import ContainerTraits, DeviceTraits, PodTraits


@dataclass(frozen=True, slots=True)
class HolderRow:
    """A job that holds a part of a device: thousandths of it and MiB."""

    job: str
    user: str = ""
    share_milli: int = 1000
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True)
class ContainerRow(ContainerTraits):
    """A container of the host's Docker, none of Corral's, that has a process on a device."""

    name: str
    image: str


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """A process on a device; `job` is None when Corral did not start it.

    `container` is then its container, None if there is none, or if Docker has not answered.
    """

    pid: int
    user: str | None = None
    command: str | None = None
    memory_mib: int | None = None
    job: str | None = None
    container: ContainerRow | None = None


@dataclass(frozen=True, slots=True)
class PodRow(PodTraits):
    """A pod not made by Corral to which a cluster has given a device; `owner` is the object that made it, such as
    "Job/train"."""

    namespace: str
    name: str
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class PartRow:
    """A part of a device that a pod has which Corral did not make: thousandths of it and MiB."""

    pod: PodRow
    share_milli: int = 1000
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True)
class LinkRow:
    """An NVLink or PCIe connection to another device: its UUID, the kind, and how many lanes."""

    peer: str
    kind: str = ""
    lanes: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceRow(DeviceTraits):
    """One device with its last sample; a measurement that could not be read is None.

    Attributes:
        uuid: from the driver.
        index: in PCI bus order, as nvidia-smi counts.
        state: unreadable, unhealthy, quarantined, probation, cordoned, allocated, reserved, in_use, stale, suspect or
            free.
        state_reason: the reason for that state, for a person.
        state_since: since when; unknown for cordoned, allocated, reserved and free.
        since: when processes outside Corral were first seen on it.
        means, held_as: how it is shared by its setting, and how its jobs hold it: exclusive, mps, mig or timeslice.
        availability: free memory and idle time as one number, 1.0 being wholly idle; None where one is not known.
        vgpu_layer, vgpu_cuda: the software that makes virtual GPUs of it, and the CUDA version it is built for, by the
            site's settings.
        mig_profile, parent: of a MIG slice, and the UUID of the device that it is cut from.
        throttled_by: why its clocks are reduced: power_cap, hw_slowdown, sw_thermal, hw_thermal, power_brake.
        xid: the number of its last Xid error since the node's agent began to listen, 0 for none.
        metered: whether anything measures it. If not, only its holder is known.
        pod: a pod, none of Corral's, that has it.
        parts: the parts of it that such pods have.
        vendor: its maker: nvidia, amd.
        power_limit_w: its power limit without the limit of a job.
        job_power_limit_w: the power limit that its job has set; None if it has set none.
        least_power_limit_w, most_power_limit_w: the limits that jobs may set; None if they can set none.
        power_limit_fixed: why jobs can set none, if its driver accepts some.
        health: healthy, suspect, quarantined or probation, as recorded: a job may run on a sick device.
        health_reason, health_since: why and since when; None for a device that was always healthy.
        joined: whether its node is a host that is joined to the server by SSH.
    """

    uuid: str
    index: int | None = None
    name: str = ""
    state: str = "unreadable"
    memory_total_mib: int | None = None
    memory_used_mib: int | None = None
    memory_free_mib: int | None = None
    utilization_pct: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    holders: tuple[HolderRow, ...] = ()
    processes: tuple[ProcessRow, ...] = ()
    state_reason: str | None = None
    state_since: float | None = None
    since: float | None = None
    node: str | None = None
    compute_capability: str | None = None
    power_limit_w: float | None = None
    pci_bus_id: str | None = None
    numa_node: int | None = None
    mig_enabled: bool | None = None
    mig_profile: str | None = None
    parent: str | None = None
    means: str = ""
    held_as: str = ""
    links: tuple[LinkRow, ...] = ()
    availability: float | None = None
    vgpu_layer: str | None = None
    vgpu_cuda: str | None = None
    memory_bandwidth_pct: int | None = None
    sm_clock_mhz: int | None = None
    mem_clock_mhz: int | None = None
    throttled_by: tuple[str, ...] | None = None
    xid: int | None = None
    metered: bool = True
    pod: PodRow | None = None
    vendor: str = ""
    job_power_limit_w: float | None = None
    least_power_limit_w: float | None = None
    most_power_limit_w: float | None = None
    power_limit_fixed: str | None = None
    health: str = "healthy"
    health_reason: str | None = None
    health_since: float | None = None
    parts: tuple[PartRow, ...] = ()
    joined: bool = False


@dataclass(frozen=True, slots=True)
class MappedDevice(DeviceTraits):
    """A device in the allocation map; `jobs` are those on it in the order they came.

    `means` is how it is shared by its setting, `held_as` how these hold it.

    `mig_profile` is a slice's.
    """

    uuid: str
    index: int | None = None
    name: str = ""
    node: str | None = None
    means: str = ""
    allocated_milli: int = 0
    jobs: tuple[HolderRow, ...] = ()
    mig_profile: str | None = None
    held_as: str = ""


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """The commands that change the MIG slices of a device, in their order, and whether they were run."""

    device: str
    purpose: str = ""
    commands: tuple[str, ...] = ()
    applied: bool = False
