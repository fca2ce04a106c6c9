"""What one maker of GPUs brings: how its devices are found, shown to a job, shared, checked, named and judged."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from corral.clock import Clock
from corral.core.model.answers.devices import SlicePlan
from corral.core.model.devices.device import Device, DeviceSample, Node
from corral.core.model.devices.means import Means
from corral.core.model.errors import BackendFailed
from corral.core.model.jobs.job import Request
from corral.core.model.version import Version
from corral.core.ports.node import SliceChange
from corral.core.ports.preflight import Finding, Place, Workload
from corral.vendors.sharing_driver import SharingDriver

if TYPE_CHECKING:
    from corral.config import Settings

Json = dict[str, Any]


class NotHere(BackendFailed):
    """The host has nothing of this vendor: no reason why there are no devices that anybody needs to be told."""


@dataclass(frozen=True, slots=True)
class FoundDevices:
    """The devices that a driver knows, in index order, and the versions of the driver and of the CUDA that it runs."""

    devices: tuple[Device, ...]
    driver_version: str | None = None
    cuda_version: tuple[int, int] | None = None


class DriverSource(Protocol):
    """Finds and samples the devices of one driver. What the host knows of them, such as NUMA nodes, is not its task.

    Calls may be slow or hang: they run on the sampler's thread.

    Attributes:
        unopened: devices that the driver counts and does not let anybody open, in words.
    """

    name: str
    unopened: tuple[str, ...]

    def found(self) -> FoundDevices:
        """The devices, the same value while nothing was read anew. Raises BackendFailed when no driver answers."""
        ...

    def sample(self, uuids: Sequence[str] | None = None) -> tuple[DeviceSample, ...]:
        """One sample of each device, or of those named; a device that cannot be read has its `fault` set."""
        ...

    def close(self) -> None:
        """Let the driver session go."""
        ...


@dataclass(frozen=True, slots=True)
class DriverLibrary:
    """A way to a driver, by its name for a person. `open` returns a source that has answered.

    It raises BackendFailed saying why there is none, NotHere where that needs no saying.
    """

    name: str
    open: Callable[[Clock], DriverSource]


@dataclass(frozen=True, slots=True)
class Host:
    """The host on which devices are shared, and its site.

    Attributes:
        home: the server's directory.
        described: the devices are of a mock file, and have no driver.
        by_root: the server runs as root.
    """

    home: Path
    settings: "Settings"
    described: bool
    by_root: bool


Clients = Callable[[], Mapping[str, tuple[Device, tuple[str, ...]]]]
"""Devices with the launches that run on them as clients of a daemon, by UUID."""

Lost = Callable[[str, str, tuple[str, ...]], None]
"""Told of a device whose daemon failed: its UUID, why, and the launches that are lost with it."""


class DaemonWatch(Protocol):
    """A watch over daemons, on a thread of its own."""

    def start(self) -> None: ...

    def close(self) -> None: ...


class HostSharing(Protocol):
    """How a vendor's devices are shared on one host.

    Attributes:
        drivers: of the means that the vendor has.
        warnings: why devices are not shared quite as the site asks.
    """

    drivers: Mapping[Means, SharingDriver]
    warnings: tuple[str, ...]

    def unfit(self, node: Node, device: Device) -> str | None:
        """Why jobs cannot meet in a daemon on the device here (`Means.MPS`), for a person; None when they can."""
        ...

    def one_user(self, device: Device) -> bool:
        """Whether a daemon serves one Unix user at a time on the device."""
        ...

    def daemons(self) -> tuple[int, ...]:
        """The pids of the daemons that run now."""
        ...

    def watch(self, clients: Clients, lost: Lost) -> DaemonWatch | None:
        """What looks after the daemons; None where there are never any."""
        ...


@dataclass(frozen=True, slots=True)
class GpuLabels:
    """A node's GPUs by its labels in a cluster, which others may have written. What is missing or no sense is None.

    Attributes:
        product: as "NVIDIA-A100-SXM4-80GB", without what a shared or sliced one has at its end.
        profile: of slices that are each offered as a device, as "1g.5gb".
        memory_mib: of each.
        compute: compute capability, major and minor.
        replicas: by how many one GPU is shared; 1 where it is not, or nobody says by how many.
        shared_by: how each of what the node offers meets the others on its GPU; None where each has its own.
        driver_version: as "550.54.15".
        cuda_version: the newest that the driver runs, major and minor.
    """

    product: str | None = None
    profile: str | None = None
    memory_mib: int | None = None
    compute: tuple[int, int] | None = None
    replicas: int = 1
    shared_by: Means | None = None
    driver_version: str | None = None
    cuda_version: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class KubernetesNames:
    """How a cluster names a vendor's devices.

    Attributes:
        gpu: the resource of whole GPUs, and the key of the taint by which clusters keep other pods off their nodes.
        domain: what the names of all its resources begin with, such as "nvidia.com/".
        plugin: what makes a cluster offer them, for a person.
        read_labels: a node's GPUs by its labels.
        model: the device model of a product in the labels.
    """

    gpu: str
    domain: str
    plugin: str
    read_labels: Callable[[Mapping[str, str]], GpuLabels]
    model: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class HealthSigns:
    """By what a device is known to be sick.

    Attributes:
        application_errors: numbers of the driver's errors (`DeviceSample.xid`) that are a program's fault.
        reset: the command that resets a device, given its UUID.
    """

    application_errors: frozenset[int]
    reset: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class MockNames:
    """How a file of mock devices names what is a vendor's.

    Attributes:
        slot: the `slot_name` of a file with the vendor's devices.
        driver_version, cuda_version: the attributes that tell versions; None where there is none.
        profile: what of a slice's `model_name` is the profile: the model and it are told apart there.
        slice_id: the UUID of a slice, given its device's and the number of its row.
    """

    slot: str
    driver_version: str
    cuda_version: str | None
    slice_of: Callable[[str], tuple[str, str]]
    slice_id: Callable[[str, int], str]


class Reached(NamedTuple):
    """A device by what a container needs to reach it: its UUID and its device files."""

    uuid: str
    files: tuple[str, ...] = ()


Rule = Callable[[Workload, Place], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Vendor:
    """One maker of GPUs. All of it is functions and values that load what is large when they are called.

    Attributes:
        name: in settings, requests and the ledger, such as "nvidia".
        title: for a person, and what models' names begin with.
        libraries: ways to its driver, by preference.
        means_it: whether a request is for its devices, by what it asks for and by other systems' names of resources.
        variable: the variable that has the UUIDs of a process's devices, with commas.
        visible: the variables by which a process sees these devices, by UUID, and no other of this vendor.
        unset: variables that a process which has its devices must not have.
        of_the_host: variables that mean nothing in a container, which sees its own devices alone.
        void: variables by which an image sees no device of this vendor.
        in_container: what Docker's HostConfig has for these devices; also given the CDI names that the daemon knows.
        unfit: why jobs cannot meet in a daemon on a device, as far as node and device tell.
        share: how devices are shared on a host.
        slice_milli: what a slice counts as, in milli-GPU, given its profile, its memory and its device.
        change_slices: cuts slices, or shows how; None where Corral makes none.
        driver_rules, sharing_rules: of preflight, on what the devices are and on how they are shared.
        compute_of_model: the compute capability of a device by its name.
    """

    name: str
    title: str
    libraries: tuple[DriverLibrary, ...]
    means_it: Callable[[Request, Collection[str]], bool]
    variable: str
    visible: Callable[[Sequence[str]], Mapping[str, str]]
    unset: tuple[str, ...]
    of_the_host: tuple[str, ...]
    void: Mapping[str, str]
    in_container: Callable[[Sequence[Reached], Collection[str]], Json]
    unfit: Callable[[Node, Device], str | None]
    share: Callable[[Host], HostSharing]
    slice_milli: Callable[[str, int | None, Device], int]
    change_slices: Callable[[Device, SliceChange, bool], SlicePlan] | None
    driver_rules: Callable[[bool], Sequence[Rule]]
    sharing_rules: Callable[[], Sequence[Rule]]
    compute_of_model: Callable[[str], Version | None]
    kubernetes: KubernetesNames
    signs: HealthSigns
    mock: MockNames
