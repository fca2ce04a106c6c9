"""The parts of a GPU vendor: how its devices are found, shown to a job, shared, checked, named and judged."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from corral.clock import Clock
from corral.core.model.answers.devices import SlicePlan
from corral.core.model.devices.device import Device, DeviceSample, Node
from corral.core.model.devices.health import Verdict
from corral.core.model.devices.means import ClientLimits, Means
from corral.core.model.errors import BackendFailed
from corral.core.model.jobs.job import Request
from corral.core.model.version import Version
from corral.core.ports.node import SliceChange
from corral.core.ports.preflight import Finding, Place, Workload
from corral.core.ports.telemetry import Care
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
        one_by_one: reading devices one by one costs no more than reading all at once.
    """

    name: str
    unopened: tuple[str, ...]
    one_by_one: bool

    def found(self) -> FoundDevices:
        """The devices; the same object until they are read anew. Raises BackendFailed if no driver answers."""
        ...

    def sample(self, uuids: Sequence[str] | None = None) -> tuple[DeviceSample, ...]:
        """One sample of each device, or of those in `uuids`. A device that cannot be read has its `fault` set."""
        ...

    def take_care(self, care: Care) -> None:
        """Deal with devices so from now on (`Source.take_care`)."""
        ...

    def close(self) -> None:
        """Close the driver session."""
        ...


class PowerControl(Protocol):
    """Reads and sets the power limits of a vendor's devices. Calls may be slow or hang.

    They raise BackendFailed, with the driver's words.
    """

    def limit_mw(self, uuid: str) -> int:
        """The power limit that is set."""
        ...

    def set_limit_mw(self, uuid: str, limit_mw: int) -> None:
        """Set the power limit. If the driver refuses, it stays as it was."""
        ...


@dataclass(frozen=True, slots=True)
class DriverLibrary:
    """A way to a driver, with its name for a person. `open` returns a source that has answered.

    It raises BackendFailed with the reason if there is no source, and NotHere if the reason needs no message. `power`
    makes the control of power limits, None if there is none this way. A driver accepts a limit only from root.
    """

    name: str
    open: Callable[[Clock, Care], DriverSource]
    power: Callable[[], PowerControl] | None = None


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

    def unhooked(self, device: Device) -> str | None:
        """A sentence on why no library limits jobs on the device here (`Means.HOOK`); None if one does."""
        ...

    def one_user(self, device: Device) -> bool:
        """Whether a daemon serves one Unix user at a time on the device."""
        ...

    def client_limits(self, device: Device) -> ClientLimits:
        """The limits that a daemon sets to the clients of the device."""
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


class RegisteredDevice(NamedTuple):
    """A device as the software that shares it has registered it on its node in a cluster."""

    uuid: str
    memory_mib: int
    model: str | None = None
    healthy: bool = True


class PlacedPart(NamedTuple):
    """A device, or a part of one, that a pod is to get.

    Attributes:
        number: of the device on its node, from 0.
        uuid: None if it is unknown.
        cores_percent: the compute that the pod asked for; 0 if it asked for none.
    """

    number: int
    uuid: str | None
    share_milli: int
    memory_mib: int | None
    cores_percent: int = 0


class AtBinding(NamedTuple):
    """A pod that is being bound: its node, the time in Unix seconds, the position of its container with GPUs, how many
    containers it has, and the parts of devices that the container is to get.
    """

    node: str
    now_s: float
    container: int
    containers: int
    parts: tuple[PlacedPart, ...]


@dataclass(frozen=True, slots=True)
class ShareLayer:
    """Software that gives pods parts of a vendor's devices, by resources of its own.

    The meaning of one unit of each resource is in `core/sharing/resources.toml`, or the site's.

    Attributes:
        name: for a person.
        means: how pods share a device.
        known_by: the resource for which a pod must ask, or the one by which its requests are told apart from others.
        resources: the names by which a pod asks for parts; a request for one of them is for this software.
        count: the resource of the number of devices; None if `core` says it.
        core: the resource of hundredths of a device's compute. memory: that of its memory.
        by_core: whether nodes offer `core` and `memory`, by which their devices are counted.
        registered: returns the devices on a node by the node's annotations; None if none are registered.
        at_binding: returns the annotations by which its plugin learns which devices a pod is to get.
        given: returns the devices of each container by the pod's annotations: UUIDs, or indices as texts.
        awaits: the annotation, and its value, of pods that its plugin has not served yet, if it could mistake one such
            pod of its node for another; None if it could not.
        env_refusal: why the container with these variables cannot have a part, for a person; None if it can.
        min_compute, min_cuda: what devices and drivers must have at least; None for anything.
    """

    name: str
    means: Means
    known_by: str
    resources: tuple[str, ...]
    core: str
    memory: str
    count: str | None = None
    by_core: bool = False
    registered: Callable[[Mapping[str, str]], tuple[RegisteredDevice, ...] | None] = lambda notes: None
    at_binding: Callable[[AtBinding], Mapping[str, str]] = lambda bound: {}
    given: Callable[[Mapping[str, str]], Mapping[int, tuple[str, ...]]] = lambda notes: {}
    awaits: tuple[str, str] | None = None
    env_refusal: Callable[[Mapping[str, str]], str | None] = lambda env: None
    min_compute: tuple[int, int] | None = None
    min_cuda: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class MemoryResource:
    """The resource by which pods ask for memory of shared devices; `unit_mib` is what one of it is."""

    name: str
    unit_mib: int


@dataclass(frozen=True, slots=True)
class SharedBy:
    """The resources of devices that are shared by one means: hundredths of a device, and its memory."""

    cores: str
    memory: MemoryResource


@dataclass(frozen=True, slots=True)
class PodShare:
    """The access of a pod's container to a part of a device: variables, and paths of the host under the same names."""

    variables: Mapping[str, str]
    paths: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KubernetesNames:
    """The names of a vendor's devices in a cluster.

    Attributes:
        gpu: the resource of whole GPUs, and the key of the taint by which clusters keep other pods off their nodes.
        domain: the beginning of the names of all its resources, for example "nvidia.com/".
        plugin: the software that makes a cluster offer the devices, for a person.
        of_slice: returns the resource of slices with a profile.
        shared: the resources of parts of devices, by means.
        pod_share: returns what a container gets for a part of a device, by the means and its driver's variables.
        variable: the variable by which a container runtime with the vendor's hook gives a container these devices, by
            UUID; None if device files are enough.
        read_labels: returns a node's GPUs by its labels.
        model: returns the device model of a product in the labels.
        shares: the software that gives pods parts of its devices.
        slices: the beginning of the names of resources that are slices of a device; None if there are none.
        plugin_sets: the usual names of the DaemonSets that give out its devices.
        runtime: returns the version for which a program is built, by its container's variables; None: they do not say.
    """

    gpu: str
    domain: str
    plugin: str
    of_slice: Callable[[str], str]
    shared: Mapping[Means, SharedBy]
    pod_share: Callable[[Means, Mapping[str, str]], PodShare]
    variable: str | None
    read_labels: Callable[[Mapping[str, str]], GpuLabels]
    model: Callable[[str], str]
    shares: tuple[ShareLayer, ...] = ()
    slices: str | None = None
    plugin_sets: tuple[str, ...] = ()
    runtime: Callable[[Mapping[str, str]], Version | None] = lambda env: None


class ErrorMeaning(NamedTuple):
    """The meaning of an error of a driver by its number: the consequence, and the cause for a person.

    `ends_job` says whether the work that met it has ended, or cannot go on.
    """

    verdict: Verdict
    cause: str
    ends_job: bool = False


class LoggedError(NamedTuple):
    """An error in the kernel's log: the PCI address of the device, the number, and the process that is named."""

    pci_bus_id: str
    code: int
    pid: int | None


@dataclass(frozen=True, slots=True)
class HealthSigns:
    """The signs of a faulty device.

    Attributes:
        error: the name of the driver's errors for a person.
        errors: the meaning of the errors by number; `unknown` is the meaning of all others.
        recovery: the number of the error by which the driver announces a change of the recovery action, None if none.
        contained, uncontained: numbers of errors which say that uncorrectable memory errors reached no other work, or
            may have.
        logged: reads the error in a line that the kernel has logged; None if it is none of the driver's errors.
        reset: the command that resets a device, given its UUID.
        own_test: the module that tests a device if it is run; it sees no other. None if Corral has no test of them.
    """

    error: str
    errors: Mapping[int, ErrorMeaning]
    unknown: ErrorMeaning
    recovery: int | None
    contained: frozenset[int]
    uncontained: frozenset[int]
    logged: Callable[[str], LoggedError | None]
    reset: Callable[[str], str]
    own_test: str | None = None

    @property
    def application_errors(self) -> frozenset[int]:
        """The numbers of errors (`DeviceSample.xid`) that are a program's fault."""
        return frozenset(code for code, meaning in self.errors.items() if meaning.verdict is Verdict.BLAMES_JOB)


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


class DeviceNumbers(NamedTuple):
    """Character devices: a major number, and the minor numbers from `first` to `last`."""

    major: int
    first: int
    last: int


class Reached(NamedTuple):
    """The properties of a device that a container needs: its UUID and its device files."""

    uuid: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceFiles:
    """The character devices of a vendor on a host, as far as they belong to single GPUs or slices of them.

    Attributes:
        numbers: the numbers that its GPUs may have, also those that Corral does not know or that appear later.
        number_of: the number of a device file by its name, for a file that does not exist yet; None if it shows none.
        of_all: the files that every process opens to use a device, besides the device's own.
        kernel_drivers: the names of its kernel drivers, which also make DRM devices of its GPUs.
        in_container: the fields of Docker's HostConfig for these devices; it also gets the CDI names of the daemon.
    """

    numbers: Callable[[], Sequence[DeviceNumbers]]
    number_of: Callable[[str], DeviceNumbers | None]
    of_all: tuple[str, ...]
    kernel_drivers: tuple[str, ...]
    in_container: Callable[[Sequence[Reached], Collection[str]], Json]


class ImageSays(NamedTuple):
    """The runtime of a container's image, and the driver that it needs, in the words of the vendor."""

    runtime: Version | None = None
    driver_condition: str | None = None


@dataclass(frozen=True, slots=True)
class ImageNames:
    """The names by which an image says what it needs of a vendor's driver.

    Attributes:
        variables, labels: the names of the variables and the labels that `read` reads.
        read: returns what they say, given those that an image has.
    """

    variables: tuple[str, ...]
    labels: tuple[str, ...]
    read: Callable[[Mapping[str, str], Mapping[str, str]], ImageSays]


Rule = Callable[[Workload, Place], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Preflight:
    """What preflight checks of a vendor's devices before a job runs.

    Attributes:
        driver_rules, sharing_rules: rules on the devices, and on how they are shared. The former are told whether the
            site is strict on versions.
        image: how images of containers name what they need; None if they do not.
    """

    driver_rules: Callable[[bool], Sequence[Rule]]
    sharing_rules: Callable[[], Sequence[Rule]]
    image: ImageNames | None = None


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
        files: how processes reach its devices: by character devices, which a fence opens to their job alone.
        unfit: the reason why jobs cannot share a daemon on a device, as far as node and device show it.
        share: makes the sharing of devices on a host.
        slice_milli: the milli-GPU of a slice, given its profile, its memory and its device.
        change_slices: creates slices, or shows how; None if Corral creates none.
        preflight: what preflight checks of the devices.
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
    files: DeviceFiles
    unfit: Callable[[Node, Device], str | None]
    share: Callable[[Host], HostSharing]
    slice_milli: Callable[[str, int | None, Device], int]
    change_slices: Callable[[Device, SliceChange, bool], SlicePlan] | None
    preflight: Preflight
    compute_of_model: Callable[[str], Version | None]
    kubernetes: KubernetesNames
    signs: HealthSigns
    mock: MockNames

    def power(self) -> PowerControl:
        """The control of power limits on this host. Raises BackendFailed if no way to the driver has one."""
        for library in self.libraries:
            if library.power is not None:
                return library.power()
        raise BackendFailed(f"Corral sets no power limits of GPUs made by {self.title}")
