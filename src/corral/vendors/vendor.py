"""The parts of a GPU vendor: how its devices are found, shown to a job, shared, checked, named and judged."""

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
    """The host has nothing of this vendor. No user needs a message about it."""


@dataclass(frozen=True, slots=True)
class FoundDevices:
    """The devices that a driver knows, in index order, and the versions of the driver and of the CUDA that it runs."""

    devices: tuple[Device, ...]
    driver_version: str | None = None
    cuda_version: tuple[int, int] | None = None


class DriverSource(Protocol):
    """Finds and samples the devices of one driver. It does not find facts of the host, for example NUMA nodes.

    Calls may be slow or hang: they run on the sampler's thread.

    Attributes:
        unopened: sentences on devices that the driver counts but does not open.
    """

    name: str
    unopened: tuple[str, ...]

    def found(self) -> FoundDevices:
        """The devices; the same object until they are read anew. Raises BackendFailed if no driver answers."""
        ...

    def sample(self, uuids: Sequence[str] | None = None) -> tuple[DeviceSample, ...]:
        """One sample of each device, or of those in `uuids`. A device that cannot be read has its `fault` set."""
        ...

    def close(self) -> None:
        """Close the driver session."""
        ...


@dataclass(frozen=True, slots=True)
class DriverLibrary:
    """A way to a driver, with its name for a person. `open` returns a source that has answered.

    It raises BackendFailed with the reason if there is no source, and NotHere if the reason needs no message.
    """

    name: str
    open: Callable[[Clock], DriverSource]


@dataclass(frozen=True, slots=True)
class Host:
    """The host on which devices are shared, and its site.

    Attributes:
        home: the server's directory.
        described: whether the devices come from a mock file and have no driver.
        by_root: whether the server runs as root.
    """

    home: Path
    settings: "Settings"
    described: bool
    by_root: bool


Clients = Callable[[], Mapping[str, tuple[Device, tuple[str, ...]]]]
"""Returns the devices by UUID, each with the launches that run on it as clients of a daemon."""

Lost = Callable[[str, str, tuple[str, ...]], None]
"""Called if the daemon of a device failed, with the UUID, the reason, and the launches that are lost."""


class DaemonWatch(Protocol):
    """A watch over daemons, on a thread of its own."""

    def start(self) -> None: ...

    def close(self) -> None: ...


class HostSharing(Protocol):
    """The sharing of a vendor's devices on one host.

    Attributes:
        drivers: the sharing driver of each means that the vendor has.
        warnings: sentences on devices that are not shared exactly as the site asks.
    """

    drivers: Mapping[Means, SharingDriver]
    warnings: tuple[str, ...]

    def unfit(self, node: Node, device: Device) -> str | None:
        """A sentence on why jobs cannot share a daemon on the device here (`Means.MPS`); None if they can."""
        ...

    def one_user(self, device: Device) -> bool:
        """Whether a daemon serves one Unix user at a time on the device."""
        ...

    def daemons(self) -> tuple[int, ...]:
        """The pids of the daemons that run now."""
        ...

    def watch(self, clients: Clients, lost: Lost) -> DaemonWatch | None:
        """The watch over the daemons; None if the vendor never has any."""
        ...


@dataclass(frozen=True, slots=True)
class GpuLabels:
    """A node's GPUs by its labels in a cluster, which other software may have written. None: missing or invalid.

    Attributes:
        product: for example "NVIDIA-A100-SXM4-80GB", without the suffix of a shared or sliced one.
        profile: the profile of slices that are each offered as a device, for example "1g.5gb".
        memory_mib: the memory of each device.
        compute: compute capability, major and minor.
        replicas: the number of devices that share one GPU; 1 if it is not shared, or the number is unknown.
        shared_by: how the devices on one GPU share it; None if each has its own GPU.
        driver_version: for example "550.54.15".
        cuda_version: the newest version that the driver runs, major and minor.
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
    """The names of a vendor's devices in a cluster.

    Attributes:
        gpu: the resource of whole GPUs, and the key of the taint by which clusters keep other pods off their nodes.
        domain: the beginning of the names of all its resources, for example "nvidia.com/".
        plugin: the software that makes a cluster offer the devices, for a person.
        read_labels: returns a node's GPUs by its labels.
        model: returns the device model of a product in the labels.
    """

    gpu: str
    domain: str
    plugin: str
    read_labels: Callable[[Mapping[str, str]], GpuLabels]
    model: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class HealthSigns:
    """The signs of a faulty device.

    Attributes:
        application_errors: numbers of the driver's errors (`DeviceSample.xid`) that are a program's fault.
        reset: the command that resets a device, given its UUID.
    """

    application_errors: frozenset[int]
    reset: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class MockNames:
    """The names of a vendor's devices in a file of mock devices.

    Attributes:
        slot: the `slot_name` of a file with the vendor's devices.
        driver_version, cuda_version: the attributes with the versions; None if there is none.
        slice_of: splits a slice's `model_name` into model and profile.
        slice_id: returns the UUID of a slice, given the UUID of its device and the number of its row.
    """

    slot: str
    driver_version: str
    cuda_version: str | None
    slice_of: Callable[[str], tuple[str, str]]
    slice_id: Callable[[str, int], str]


class Reached(NamedTuple):
    """The properties of a device that a container needs: its UUID and its device files."""

    uuid: str
    files: tuple[str, ...] = ()


Rule = Callable[[Workload, Place], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Vendor:
    """One maker of GPUs: functions and values. The functions import large modules only when they are called.

    Attributes:
        name: the name in settings, requests and the ledger, for example "nvidia".
        title: the name for a person, with which the names of its models begin.
        libraries: ways to its driver, by preference.
        means_it: whether a request is for its devices, by the request and by other systems' names of resources.
        variable: the variable with the UUIDs of a process's devices, separated by commas.
        visible: the variables by which a process sees exactly these devices of this vendor, by UUID.
        unset: variables that a process with its devices must not have.
        of_the_host: variables without a meaning in a container, which sees only its own devices.
        void: variables by which an image sees no device of this vendor.
        in_container: the fields of Docker's HostConfig for these devices; it also gets the CDI names of the daemon.
        unfit: the reason why jobs cannot share a daemon on a device, as far as node and device show it.
        share: makes the sharing of devices on a host.
        slice_milli: the milli-GPU of a slice, given its profile, its memory and its device.
        change_slices: creates slices, or shows how; None if Corral creates none.
        driver_rules, sharing_rules: rules of preflight on the devices, and on how they are shared.
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
