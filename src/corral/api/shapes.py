"""What requests carry and what answers look like, as the API's description shows them.

Requests are read into these (`corral.api.reading`); answers come from the service as plain data of these shapes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from corral.model.job import JobKind, Phase
from corral.model.means import Enforcement
from corral.model.submission import Submission


@dataclass(frozen=True, slots=True)
class Batch:
    """Submissions of which either all are accepted or none."""

    jobs: tuple[Submission, ...]


@dataclass(frozen=True, slots=True)
class Adoption:
    """A process that runs already, to be taken on as a job that holds the GPUs it uses."""

    pid: int
    name: str = ""
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Jobs or arrays whose end is waited for, for at most 30 seconds a request."""

    ids: tuple[str, ...]
    timeout_s: float = 20.0


@dataclass(frozen=True, slots=True)
class Cordon:
    """Why a device is set apart."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Cut:
    """More MIG slices of a profile; `apply` false only shows what would be done."""

    profile: str
    count: int = 1
    apply: bool = False


@dataclass(frozen=True, slots=True)
class GiveUp:
    """All MIG slices of a device given up; `apply` false only shows what would be done."""

    apply: bool = False


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """What changes the slices of a device, as commands in their order, and whether they were run."""

    device: str
    purpose: str
    commands: tuple[str, ...]
    applied: bool


@dataclass(frozen=True, slots=True)
class JobsQuery:
    """Which jobs to list, newest first. `all` adds those that have ended; `limit` 0 lists them unpaged; `starts` tells
    of all that wait when they are expected to start.
    """

    all: bool = False
    user: str | None = None
    phase: tuple[Phase, ...] = ()
    name: str | None = None
    array: str | None = None
    limit: int = 100
    before: int | None = None
    starts: bool = False


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which part of a log: from byte `offset` on, and with `follow` also what is yet to come."""

    follow: bool = False
    offset: int = 0


@dataclass(frozen=True, slots=True)
class JobId:
    """The id of an accepted job or array; `array_size` counts the elements of an array."""

    id: str
    array_size: int | None = None


@dataclass(frozen=True, slots=True)
class JobIds:
    """Ids, in the order of what was asked."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Granted:
    """What a job has of a device: thousandths of it and MiB, null for all the memory that goes with the share."""

    uuid: str
    share_milli: int
    memory_mib: int | None


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job in a listing. Times are Unix seconds; `exit_code` is 128+N when `signal` N ended it.

    `gpus_milli` is what it holds of GPUs, or asks for; `grants` and `enforcement` are of what it holds now.
    """

    id: str
    array_id: str | None
    array_index: int | None
    name: str
    user: str
    phase: Phase
    exit_code: int | None
    signal: int | None
    reason: str | None
    devices: tuple[str, ...]
    priority: int
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    attempts: int
    kind: JobKind
    held: bool
    queue: str
    project: str
    command: tuple[str, ...]
    gpus: int
    gpus_milli: int
    grants: tuple[Granted, ...]
    enforcement: Enforcement | None
    time_limit_s: float | None
    sequence: int
    wait: str | None
    expected_start: float | None


@dataclass(frozen=True, slots=True)
class JobPage:
    """Jobs, newest first; `next` is the `before` of the following page, null after the last."""

    jobs: tuple[JobRow, ...]
    next: int | None


@dataclass(frozen=True, slots=True)
class Waited:
    """How long a job waited for one reason."""

    reason: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Why:
    """Why a job waits, in one sentence, and its place in the queue from 1; after the end, how the wait was spent."""

    id: str
    phase: Phase
    reason: str | None
    position: int | None
    expected_start: float | None
    starts_now_with: str | None
    holds: str | None
    waited: tuple[Waited, ...]


@dataclass(frozen=True, slots=True)
class NamedDevice:
    """A device, by UUID for programs and by index and name for people."""

    uuid: str
    index: int
    name: str


@dataclass(frozen=True, slots=True)
class Shape:
    """A request near the one that was made, in words."""

    text: str


@dataclass(frozen=True, slots=True)
class DryRun:
    """What would become of a submission: it starts now on these devices, or when and why not; or it is not possible."""

    starts_now: bool
    possible: bool
    devices: tuple[NamedDevice, ...]
    grants: tuple[Granted, ...]
    notes: tuple[str, ...]
    reason: str
    expected_start: float | None
    nearest: Shape | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Whether all jobs that were named have ended, and how they stand."""

    done: bool
    jobs: tuple[JobRow, ...]


@dataclass(frozen=True, slots=True)
class Holder:
    """Who was given (part of) a device by Corral."""

    job: str
    user: str
    share_milli: int
    memory_mib: int | None


@dataclass(frozen=True, slots=True)
class Process:
    """A process on a device; `job` is null for one that Corral did not start."""

    pid: int
    user: str | None
    command: str | None
    memory_mib: int | None
    job: str | None


@dataclass(frozen=True, slots=True)
class PeerLink:
    """A fast path to another device."""

    peer: str
    kind: str
    lanes: int


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A device in a listing. What could not be read is null."""

    uuid: str
    index: int
    name: str
    state: str
    memory_total_mib: int | None
    memory_used_mib: int | None
    memory_free_mib: int | None
    utilization_pct: int | None
    temperature_c: int | None
    power_w: float | None
    holders: tuple[Holder, ...]
    processes: tuple[Process, ...]
    state_reason: str | None
    since: float | None
    node: str
    compute_capability: str | None
    power_limit_w: float | None
    pci_bus_id: str | None
    numa_node: int | None
    mig_enabled: bool | None
    mig_profile: str | None
    parent: str | None
    means: str
    links: tuple[PeerLink, ...]


@dataclass(frozen=True, slots=True)
class Devices:
    """Devices in node and index order."""

    devices: tuple[DeviceRow, ...]


@dataclass(frozen=True, slots=True)
class MappedDevice:
    """A device in the allocation map: how it is shared, and its jobs in the order they came."""

    uuid: str
    index: int
    name: str
    node: str
    means: str
    allocated_milli: int
    jobs: tuple[Holder, ...]


@dataclass(frozen=True, slots=True)
class AllocMap:
    """The allocation map in node and index order, free devices included."""

    devices: tuple[MappedDevice, ...]


@dataclass(frozen=True, slots=True)
class GraphQuery:
    """A GraphQL request over HTTP."""

    query: str
    variables: Mapping[str, Any] | None = None
    operationName: str | None = None  # noqa: N815 - the name is GraphQL's


@dataclass(frozen=True, slots=True)
class ServerRow:
    """The server about itself. `mock` says that its devices are described, not real."""

    version: str
    pid: int
    home: str
    user: str
    node: str
    source: str
    driver_version: str | None
    cuda_version: str | None
    started_at: float
    mock: bool
    uptime_s: float


@dataclass(frozen=True, slots=True)
class Health:
    """That the server answers."""

    status: str = "ok"


@dataclass(frozen=True, slots=True)
class ErrorDetail:
    """What is wrong, why, and what to do; `field` is what to change in the request, as far as one thing is."""

    message: str
    kind: str
    field: str | None = None


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """Every answer with a status from 400 on."""

    error: ErrorDetail
