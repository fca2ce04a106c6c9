"""What a server answers: the one shape of each answer, made by `control`, described by `api`, read by `client`.

Times are Unix seconds. A field that came later has a default, for a client that asks an older server.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from corral.model.attempt_end import AttemptEnd
from corral.model.certainty import Certainty
from corral.model.eviction import Eviction
from corral.model.input_state import InputState
from corral.model.job import TERMINAL_PHASES, JobKind, Phase
from corral.model.means import Enforcement
from corral.model.queue import Quota
from corral.model.token import TokenScope


@dataclass(frozen=True, slots=True)
class GrantRow:
    """What a job has of a device: thousandths of it and MiB; memory None is all that goes with the share."""

    uuid: str
    share_milli: int = 1000
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job as `ps` lists it.

    Attributes:
        devices: UUIDs, which stay after the end.
        exit_code: 128+N when `signal` N ended it; None if it never ran or was lost.
        reason: why it ended as it did.
        wait: one word on why it waits, None unless it does.
        gpus: devices asked for, of all members of a gang.
        gpus_milli: thousandths of a GPU that it holds or held last, or asks for; None where it asks for memory, and had
            none yet.
        grants: what it holds of each device, and after its end what it held last; () while it waits.
        enforcement: what stands behind that, and behind its CPUs and memory of the host; None when it has none.
        nodes: the nodes that it runs on, and after its end those that it ran on last, each once.
            A listing leaves these three out of a job that has ended and had whole devices: `devices` says what it had.
        begin_at: it is not to start before.
        expected_start_is: whether the expected start is promised, None when no start can be expected.
        eviction: the last time it was stopped for others, with what it lost; None if it never was.
        evictions, lost_s: how often it made room for others and went back to its queue, and the run time lost by that.
        params: its values of a sweep's parameters.
    """

    id: str
    array_id: str | None = None
    array_index: int | None = None
    name: str = ""
    user: str = ""
    phase: Phase = Phase.PENDING
    exit_code: int | None = None
    signal: int | None = None
    reason: str | None = None
    devices: tuple[str, ...] = ()
    priority: int = 5
    submitted_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    attempts: int = 0
    kind: JobKind = JobKind.RUN
    held: bool = False
    queue: str = "default"
    project: str = "default"
    command: tuple[str, ...] = ()
    gpus: int | None = None
    gpus_milli: int | None = None
    grants: tuple[GrantRow, ...] = ()
    enforcement: Enforcement | None = None
    time_limit_s: float | None = None
    sequence: int | None = None
    wait: str | None = None
    expected_start: float | None = None
    begin_at: float | None = None
    expected_start_is: Certainty | None = None
    eviction: Eviction | None = None
    evictions: int = 0
    lost_s: float = 0.0
    nodes: tuple[str, ...] = ()
    params: Mapping[str, str] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether it has ended for good and holds nothing."""
        return self.phase in TERMINAL_PHASES

    @property
    def succeeded(self) -> bool:
        """Whether it ended well."""
        return self.phase == Phase.SUCCEEDED


@dataclass(frozen=True, slots=True)
class WaitPart:
    """Seconds of a job's wait that had one reason."""

    reason: str
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class GrantedDevice:
    """What a job has of one device, or had last.

    Attributes:
        index, name, mig_profile: None of a device that is not known any more.
        rank: of the member that has it.
        share_milli: thousandths of it; `memory_mib` None is all that goes with the share.
    """

    uuid: str
    index: int | None = None
    node: str = ""
    rank: int = 0
    share_milli: int = 1000
    memory_mib: int | None = None
    name: str | None = None
    mig_profile: str | None = None


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One member of a job that has devices, or had them last; a job that is no gang has one.

    Attributes:
        devices: UUIDs.
        phase: of the member: STARTING, RUNNING, STOPPING or how it ended; None where that was not recorded.
        exit_code: 128+N when `signal` N ended it; None if it never ran or was lost.
        log: the path of its log on its node, None where that is not known.
        output, error: files on its node that take its standard output and error in place of the log.
        numa_nodes, numa_cpus: what a running member is bound to, the CPUs as the kernel writes them ("0-31"); () and ""
            where it is not, or has ended.
    """

    rank: int = 0
    node: str = ""
    devices: tuple[str, ...] = ()
    phase: Phase | None = None
    exit_code: int | None = None
    signal: int | None = None
    log: str | None = None
    output: str | None = None
    error: str | None = None
    numa_nodes: tuple[int, ...] = ()
    numa_cpus: str = ""


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One attempt to run a job.

    Attributes:
        attempt: counts those of which something ran, from 1; one that could not be launched has the number of the next.
        node: the node of rank 0; `nodes` are those of all members, each once.
        allocated_at: when it was given its devices; `started_at` when it ran, None where nothing did.
        ended_as: succeeded, failed, cancelled, timed_out, lost, preempted, requeued, not_launched; None while it runs.
        reason: how and why it ended, for a person; None while it runs.
        log: the path of the log of rank 0 on its node, None where that is not known; attempts on a node share it.
    """

    attempt: int
    node: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    reason: str | None = None
    log: str | None = None
    ended_as: AttemptEnd | None = None
    exit_code: int | None = None
    signal: int | None = None
    allocated_at: float | None = None
    nodes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InputProgress:
    """How much of its input a job has taken: all bytes before `offset`, the next one to send."""

    offset: int
    state: InputState = InputState.WAITING


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail(JobRow):
    """A job with everything that is known of it.

    Attributes:
        spec: what was submitted, without the environment.
        request: what it asks for, as `spec` has it; `needs` is the same in words.
        gpu_info: the record of the devices it got last.
        waits_for: jobs that it waits for, as its spec's `after` says.
        waited: how its wait was spent, before its last start or so far.
        grant, members: what it has, or had at its end; () while it waits.
        history: its attempts, oldest first, the newest 100 of them.
    """

    spec: Mapping[str, Any] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)
    needs: str = ""
    gpu_info: Mapping[str, Any] | None = None
    waits_for: tuple[str, ...] = ()
    waited: tuple[WaitPart, ...] = ()
    grant: tuple[GrantedDevice, ...] = ()
    members: tuple[MemberRow, ...] = ()
    history: tuple[AttemptRow, ...] = ()


@dataclass(frozen=True, slots=True)
class UnchangedJob:
    """A job that was not changed, and why."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ChangedJobs:
    """What was changed of the jobs that were named or chosen, or would be.

    Attributes:
        ids: of the jobs that were changed.
        unchanged: those that were not, by the id that named them.
        users: whose the changed jobs are.
        phases: how many of the changed jobs were in which phase before.
        next: the `before` of a request for the rest, None where there is none.
    """

    ids: tuple[str, ...]
    unchanged: tuple[UnchangedJob, ...] = ()
    users: tuple[str, ...] = ()
    phases: Mapping[str, int] = field(default_factory=dict)
    next: int | None = None


@dataclass(frozen=True, slots=True)
class HolderRow:
    """A job that holds a part of a device: thousandths of it and MiB."""

    job: str
    user: str = ""
    share_milli: int = 1000
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """A process on a device; `job` is None when Corral did not start it."""

    pid: int
    user: str | None = None
    command: str | None = None
    memory_mib: int | None = None
    job: str | None = None


@dataclass(frozen=True, slots=True)
class LinkRow:
    """An NVLink or PCIe connection to another device: its UUID, the kind, and how many lanes."""

    peer: str
    kind: str = ""
    lanes: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """One device with its last sample; a measurement that could not be read is None.

    Attributes:
        uuid: as the driver says it.
        index: in PCI bus order, as nvidia-smi counts.
        state: unreadable, unhealthy, cordoned, allocated, reserved, in_use, stale or free.
        state_reason: why that, for a person.
        state_since: since when, where that is known: of what is unreadable, unhealthy, in_use or stale.
        since: when strangers were first seen on it.
        means: how it is shared: exclusive, mps, mig or timeslice.
        availability: free memory and idle time as one number, 1.0 being wholly idle; None where one is not known.
        vgpu_layer, vgpu_cuda: what makes virtual GPUs of it, and the CUDA that this is built for, as the site says.
        mig_profile, parent: of a MIG slice, and the UUID of the device that it is cut from.
        throttled_by: what holds its clocks down: power_cap, hw_slowdown, sw_thermal, hw_thermal, power_brake.
        xid: the number of its last Xid error since the node's agent began to listen, 0 for none.
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
    links: tuple[LinkRow, ...] = ()
    availability: float | None = None
    vgpu_layer: str | None = None
    vgpu_cuda: str | None = None
    memory_bandwidth_pct: int | None = None
    sm_clock_mhz: int | None = None
    mem_clock_mhz: int | None = None
    throttled_by: tuple[str, ...] | None = None
    xid: int | None = None

    @property
    def sliced(self) -> bool:
        """Whether it is in MIG mode, and only its slices are allocated."""
        return self.means == "mig" and self.mig_profile is None


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """What the readings of one step were: `t` is its start (Unix seconds), `coverage` the part of it that had any.

    `p95` is at most 1 % of itself away from the reading of that rank.
    """

    t: int
    min: float
    mean: float
    max: float
    p95: float
    coverage: float


@dataclass(frozen=True, slots=True)
class DeviceHistory:
    """A device's readings from `from` to `to` (Unix seconds), by series, in steps of `step_s`.

    A step without a reading is left out.
    """

    uuid: str
    from_: int
    to: int
    step_s: int
    series: Mapping[str, tuple[HistoryPoint, ...]]


@dataclass(frozen=True, slots=True)
class ChangedSetting:
    """A setting whose value in the file differs from that in force, as the file has them; null is not set."""

    setting: str
    old: str | None = None
    new: str | None = None


@dataclass(frozen=True, slots=True)
class ReloadedSettings:
    """What came of reading the settings again.

    Attributes:
        changed: in force since.
        after_restart: in force once the server is started again; old is what it was started with.
        remarks: what an administrator should know, a sentence each.
    """

    changed: tuple[ChangedSetting, ...] = ()
    after_restart: tuple[ChangedSetting, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One queue as `queues` lists it; or what limits the caller, or a project, in every queue.

    Attributes:
        kind: user, project or queue.
        parent: the queue that it stands below, None for one at the top and for users and projects.
        quota: its own limits.
        used_milli, waiting: milli-GPU in use and jobs that wait, of a queue with those of all queues below it.
        left_milli: milli-GPU that a job of the caller may have there by all quotas that it would count to, with what
            can be borrowed now; None is no limit.
        removed: the settings do not have the queue any more, and jobs are in it: it takes no others.
    """

    name: str
    kind: str = "queue"
    parent: str | None = None
    quota: Quota = field(default_factory=Quota)
    used_milli: int = 0
    waiting: int = 0
    left_milli: int | None = None
    removed: bool = False


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node as `nodes` lists it. What is not known of one that never answered is None.

    Attributes:
        state: ready, silent, gone, draining or cordoned; on all but a ready node nothing starts.
        reason: why that, for a person; None of a ready node.
        last_seen_at: when it answered last.
        devices: how many devices it has; slices of a device are not counted.
        cpus: cores that its jobs may have in all.
    """

    name: str
    state: str = "ready"
    reason: str | None = None
    last_seen_at: float | None = None
    devices: int = 0
    cpus: float | None = None
    memory_mib: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job waits and when it will start; after its end, how the wait was spent.

    Attributes:
        position: place among the waiting jobs, from 1; None when it does not wait.
        expected_start: None when nobody can know; `reason` then says what it depends on. Of a job that is being stopped
            to make room it is when it goes on.
        expected_start_is: whether that is promised, None when no start can be expected.
        starts_now_with: flags with which it would start at once, if there are such.
        holds: what it has of devices and of the host, and what stands behind that.
        enforcement: the same for programs; None when it holds neither.
        eviction: the last time it was stopped for others, with what it lost; None if it never was.
        evictions, lost_s: how often it made room for others and went back to its queue, and the run time lost by that.
        makes_room: ids of the jobs that are being stopped for it.
        obstacle: why nothing at all starts now (a full disk), None unless the job waits and that is so.
        diagnosis: why it failed and what to do, read from the end of its log; None unless it failed, that is known, and
            whoever asks may read the log.
    """

    id: str
    phase: Phase = Phase.PENDING
    reason: str = ""
    position: int | None = None
    expected_start: float | None = None
    starts_now_with: str | None = None
    holds: str | None = None
    enforcement: Enforcement | None = None
    waited: tuple[WaitPart, ...] = ()
    expected_start_is: Certainty | None = None
    eviction: Eviction | None = None
    evictions: int = 0
    lost_s: float = 0.0
    makes_room: tuple[str, ...] = ()
    obstacle: str | None = None
    diagnosis: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """A device that a job would get, by UUID for programs and by index and name for people."""

    uuid: str
    index: int | None = None
    name: str = ""
    node: str | None = None


@dataclass(frozen=True, slots=True)
class NearestRequest:
    """A request near the one that was made, described for a person."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class DryRun:
    """What would become of a submission: it would start now on `devices`, or wait for `reason`.

    Where it is not `possible` it can never start there, and would be refused.

    Attributes:
        jobs: how many jobs it is; the other fields are of the first.
        command, params: what the first job of a sweep runs, and its parameters.
    """

    starts_now: bool
    possible: bool = True
    devices: tuple[DeviceChoice, ...] = ()
    grants: tuple[GrantRow, ...] = ()
    notes: tuple[str, ...] = ()
    reason: str = ""
    expected_start: float | None = None
    nearest: NearestRequest | None = None
    expected_start_is: Certainty | None = None
    jobs: int = 1
    command: tuple[str, ...] = ()
    params: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MappedDevice:
    """A device in the allocation map; `means` is how it is shared, `jobs` are those on it in the order they came.

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

    @property
    def sliced(self) -> bool:
        """Whether it is in MIG mode, and only its slices are allocated."""
        return self.means == "mig" and self.mig_profile is None


@dataclass(frozen=True, slots=True)
class UsageRow:
    """GPU-hours of one user, project or queue: half a GPU for two hours is one.

    Attributes:
        gpu_hours: all of them, but for slices.
        compute_enforced_hours, compute_advisory_hours: those in which the share of the compute was held to, and those
            in which nothing held the job or its neighbours to it.
        memory_enforced_hours, memory_guarded_hours, memory_advisory_hours: the same of the memory, where the memory
            guard stops who takes more.
        unrecorded_hours: those of allocations from before it was recorded.
        slice_hours: hours of MIG slices, by profile.
        lost_hours: those that were for nothing, as their jobs were stopped to make room for others; of jobs that were
            notified by their checkpoint signal only those after it.
        allocations: how many there were; a retry counts again.
    """

    name: str
    gpu_hours: float = 0.0
    compute_enforced_hours: float = 0.0
    compute_advisory_hours: float = 0.0
    memory_enforced_hours: float = 0.0
    memory_guarded_hours: float = 0.0
    memory_advisory_hours: float = 0.0
    unrecorded_hours: float = 0.0
    slice_hours: Mapping[str, float] = field(default_factory=dict)
    allocations: int = 0
    lost_hours: float = 0.0


@dataclass(frozen=True, slots=True)
class Usage:
    """What was used between two moments, a row for each user, project or queue (`by`), and all of it together."""

    by: str
    since: float
    until: float
    rows: tuple[UsageRow, ...] = ()
    total: UsageRow = UsageRow("total")


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """What changes the MIG slices of a device: commands in their order, and whether they were run."""

    device: str
    purpose: str = ""
    commands: tuple[str, ...] = ()
    applied: bool = False


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A server about itself. `mock` says that its devices are described, not real; `devices` counts them.

    `obstacle` is why nothing at all starts now (a full disk), None while nothing is in the way.
    """

    version: str = ""
    pid: int | None = None
    home: str = ""
    user: str = ""
    node: str | None = None
    source: str = ""
    driver_version: str | None = None
    cuda_version: str | None = None
    started_at: float | None = None
    mock: bool = False
    uptime_s: float | None = None
    devices: int = 0
    obstacle: str | None = None


@dataclass(frozen=True, slots=True)
class MadeToken:
    """A token that was just made: the only time that its secret is shown. `expires_at` None is never."""

    id: str
    token: str
    user: str
    scope: TokenScope
    expires_at: float | None


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token as `token list` shows it. `state` is good, expired or revoked; `last_used_at` None is never."""

    id: str
    user: str = ""
    scope: TokenScope = TokenScope.READ
    state: str = ""
    created_at: float | None = None
    created_by: str = ""
    expires_at: float | None = None
    revoked_at: float | None = None
    last_used_at: float | None = None
