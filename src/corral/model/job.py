"""A job: what was asked for, by whom, and how far it has come."""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from corral.model.container import Container
from corral.model.eviction import Eviction
from corral.model.known_fields import known_fields
from corral.model.means import Means
from corral.model.named_values import named_values
from corral.model.notification import NotifyOn
from corral.model.phase import Phase
from corral.model.placement_rules import PlacementRules
from corral.model.pod_ref import PodRef
from corral.model.split import Strategy
from corral.model.sweep import Params
from corral.model.terminal import TerminalSize
from corral.model.units import MILLI_PER_DEVICE

DEFAULT_PRIORITY = 5
"""A lower number runs first."""

MAX_TITLED_PARAMS = 60
"""Characters of the parameters of a job in a sentence; the rest is cut off."""


class JobKind(StrEnum):
    """What holds the devices: a process Corral starts, a person's session, or a process that ran already."""

    RUN = "run"
    RESERVE = "reserve"
    ADOPT = "adopt"


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process that cannot be mistaken for a later one with the same pid: pid, start time and boot id.

    `start_ticks` is field 22 of /proc/PID/stat. `node` is where it was found; "" where nobody asked a node.
    """

    pid: int
    start_ticks: int
    boot_id: str
    node: str = field(default="", compare=False)


@known_fields(
    "client.submit(command, gpus=2) takes what `corral submit` does",
    gpus="devices=2, share_milli=500 being half of each",
    gang="gang_size",
)
@dataclass(frozen=True, slots=True)
class Request:
    """What a job asks for. Each of `gang_size` members gets `devices` devices of one node, `share_milli` of each.

    Attributes:
        devices: devices a member; 0 is a CPU job.
        share_milli: share of each device; 1000 is the whole. A share below 1000 may meet others on the device.
        split_milli: a share that one device gives (then `share_milli` is the same), or several of a node together
            where none has the room or it is above 1000; None is never split. Of such requests `devices` is 1.
        split, may_fragment: how it is split (None: as the site does it), and whether it may take a part of more than
            one device.
        share_of_memory: the share is what the memory granted comes to on the device, `share_milli` the least of it.
        memory_mib: memory granted on each device, None for the share's part of it.
        memory_percent: the same as a part of the device's, where `memory_mib` is None.
        cores_percent: compute granted on each device by name, None for the share's part of it.
        mig_profile: each device is a hardware slice of this profile; None is never a slice.
        means: how the device must be shared, None is as it is configured.
        tenant: the user on whose behalf a part is asked for, set by the server: some devices serve one at a time.
        min_memory_mib: the least memory a device must have in all (a filter, not a grant).
        vendor: the maker of its devices, as `corral.vendors` names it; None counts as the first.
        models: any of these device models will do (matched as whole words of the model name); () is any.
        min_compute: least compute capability, (major, minor).
        site_min_compute: what the site asks of every device, set by the server and never above `min_compute`.
        min_driver, min_cuda: least driver and CUDA version of the node, as tuples of integers.
        device_uuids: exactly these devices.
        labels: pairs that the node must carry.
        node: the name of the node that it must be, None is any. `nodes` are several of which any will do, () is any.
        excluded_nodes: names of nodes that it must not be.
        prefers: pairs that the node had better carry: of nodes that fit, those with most of them come first.
        cpu_milli, host_memory_mib, disk_mib: of the host, a member. The disk is counted, and nobody is held to it.
        one_node: all members of the gang on one node; `spread` puts each on a node of its own.
        avoid_jobs: names of jobs that must not run on the same node (anti-affinity).
        accept_in_use: a device that strangers use will do, when this much memory (MiB) is still free on it.
        rules: what else it demands of a node: tolerated taints, labels by expressions, what runs there.
    """

    devices: int = 1
    share_milli: int = MILLI_PER_DEVICE
    memory_mib: int | None = None
    min_memory_mib: int | None = None
    models: tuple[str, ...] = ()
    min_compute: tuple[int, int] | None = None
    min_driver: tuple[int, ...] | None = None
    min_cuda: tuple[int, int] | None = None
    device_uuids: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    cpu_milli: int = 0
    host_memory_mib: int = 0
    gang_size: int = 1
    one_node: bool = False
    spread: bool = False
    avoid_jobs: tuple[str, ...] = ()
    accept_in_use: int | None = None
    split_milli: int | None = None
    split: Strategy | None = None
    may_fragment: bool = True
    share_of_memory: bool = False
    memory_percent: int | None = None
    cores_percent: int | None = None
    mig_profile: str | None = None
    means: Means | None = None
    tenant: str | None = None
    site_min_compute: tuple[int, int] | None = None
    node: str | None = None
    prefers: tuple[tuple[str, str], ...] = ()
    disk_mib: int = 0
    rules: PlacementRules | None = None
    nodes: tuple[str, ...] = ()
    excluded_nodes: tuple[str, ...] = ()
    vendor: str | None = None

    @property
    def named_nodes(self) -> tuple[str, ...]:
        """The nodes of which any will do, by their names; () is any node."""
        return self.nodes if self.node is None else (self.node,)

    @property
    def tells_nodes_apart(self) -> bool:
        """Whether it names nodes, so that nodes in equal states may differ."""
        return self.node is not None or bool(self.nodes or self.excluded_nodes)

    def allows_node(self, name: str) -> bool:
        """Whether the node of that name may be it, by its name."""
        return self.node in (None, name) and (not self.nodes or name in self.nodes) and name not in self.excluded_nodes

    @property
    def whole(self) -> bool:
        """Whether the devices (or slices) asked for are whole ones."""
        return self.share_milli == MILLI_PER_DEVICE and self.split_milli is None

    @property
    def total_milli(self) -> int:
        """Milli-GPU of all members together."""
        if self.split_milli is not None:
            return self.gang_size * self.split_milli
        return self.gang_size * self.devices * self.share_milli

    @property
    def by_neighbours(self) -> bool:
        """Whether it depends on what runs on a node if it may be placed there."""
        return bool(self.avoid_jobs) or (self.rules is not None and self.rules.by_neighbours)

    def without_neighbours(self) -> "Request":
        """The same request as if no other job ran anywhere."""
        if not self.by_neighbours:
            return self
        return replace(self, avoid_jobs=(), rules=None if self.rules is None else self.rules.without_neighbours())


ONE_DEVICE = Request()
"""What is asked for where nothing is said. One for all: to make a request takes as long as to check it."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One submission as it was accepted. Afterwards only a `JobUpdated` changes it.

    Attributes:
        priority: a lower number runs first; 5 is the default.
        time_limit_s: the job is ended after so long; None is no limit.
        retries: further attempts after a failure or a loss.
        after: what must have become of other jobs first, as `corral.model.dependency` writes it.
        begin_at: not to be started before, in Unix seconds; None is at once.
        output, error, input, open_mode, script, git_commit, git_dirty: as `Submission` has them.
        env: with the copy of the job's script, as `corral.model.script_copy` has it.
        speeds: how fast the job runs on each device model, (model, speed) pairs; 0 is cannot.
        checkpoint_signal: sent before the job is stopped to make room, or at its time limit, such as "USR1" (to all of
            its processes) or "B:USR1" (see `corral.model.checkpoint_signal`); None is none.
            The stop follows `checkpoint_grace_s` later.
        owner: for a reservation, the session leader whose end releases it; for an adoption, the process.
        notes: lines for the head of the job's log: what was rounded, what preflight warns of.
        stdin, terminal: as `Submission` has them.
        forced_by: who insisted on it although preflight had said that it cannot run; None when nobody had to.
        notify: a shell command that is run once when the job has ended for good, of an array when all of it has.
        notify_on: of what the user is told through their channel.
        uid, gid, groups: the submitting user as the kernel names it; None on a server that is not root's.
        container: what its command runs in; None is a process of its host.
        pods: pods that others made, one a member by rank, which it starts by binding each to its node; () of any other.
        params: its values of a sweep's parameters, which it also finds in its environment; () of any other job.
    """

    user: str
    command: tuple[str, ...] = ()
    name: str = ""
    kind: JobKind = JobKind.RUN
    request: Request = field(default_factory=lambda: ONE_DEVICE)
    priority: int = DEFAULT_PRIORITY
    queue: str = "default"
    project: str = "default"
    time_limit_s: float | None = None
    retries: int = 0
    after: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    workdir: str = "/"
    umask: int = 0o022
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    rlimits: tuple[tuple[str, int], ...] = ()
    owner: ProcessIdentity | None = None
    speeds: tuple[tuple[str, float], ...] = ()
    checkpoint_signal: str | None = None
    checkpoint_grace_s: float = 60.0
    notes: tuple[str, ...] = ()
    forced_by: str | None = None
    begin_at: float | None = None
    output: str | None = None
    error: str | None = None
    open_mode: str | None = None
    script: bool = False
    git_commit: str | None = None
    git_dirty: bool | None = None
    notify: str | None = None
    notify_on: tuple[NotifyOn, ...] = ()
    params: Params = ()
    stdin: bool = False
    terminal: TerminalSize | None = None
    container: Container | None = None
    pods: tuple[PodRef, ...] = ()
    input: str | None = None

    @property
    def takes_input(self) -> bool:
        """Whether somebody sends its program input, through a pipe or a terminal."""
        return self.stdin or self.terminal is not None


@dataclass(frozen=True, slots=True)
class Job:
    """One submission with its phase. An array is a parent id and one job per element.

    Times are Unix seconds as the server counts them (`corral.clock`); `started_at` and `ended_at` are the supervisor's
    word, who counts alike. `sequence` orders submissions and breaks every tie.

    Attributes:
        launches: times it was handed devices; numbers its allocations.
        attempts: launches of which something ran.
        launch_failures: launches in a row that failed on the machine's side.
        eligible_at: not to be started before: its begin time, and once it was launched a pause after a failed launch or
            attempt; None is at once.
        held: the user's hold; a held job stays PENDING.
        stop_reason: while STOPPING, the phase it is to end in.
        waits_for: ids of the jobs of `spec.after` that it still depends on; in a long list also of some that it no
            longer does, until the last is done with.
        conditions: what is left of `spec.after`, where `waits_for` does not say it; () is all of it.
        reason: why it ended as it did, for a person.
        devices: UUIDs of the last allocation, kept after the end.
        eviction: the last time it was stopped for others, None if it never was; `evictions` counts the times it went
            back to its queue for that, and `lost_s` is the run time that it lost by them.
        input_taken: its program was given some of its input, which cannot be given to another run of it.
        waited: how the wait before the last start was spent, (reason, seconds) pairs in the order they first came.
    """

    id: str
    sequence: int
    spec: JobSpec
    submitted_at: float
    phase: Phase = Phase.PENDING
    held: bool = False
    launches: int = 0
    attempts: int = 0
    launch_failures: int = 0
    eligible_at: float | None = None
    waits_for: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    stop_reason: Phase | None = None
    reason: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    started_at: float | None = None
    ended_at: float | None = None
    allocation_id: str | None = None
    devices: tuple[str, ...] = ()
    waited: tuple[tuple[str, float], ...] = ()
    array_id: str | None = None
    array_index: int | None = None
    array_limit: int | None = None
    eviction: Eviction | None = None
    evictions: int = 0
    lost_s: float = 0.0
    input_taken: bool = False

    @property
    def evicted(self) -> Eviction | None:
        """How its last launch was stopped for others, None where it was not."""
        last = f"{self.id}.{self.launches}"
        return self.eviction if self.eviction is not None and self.eviction.allocation_id == last else None

    @property
    def evicted_before(self) -> Eviction | None:
        """How the launch before the last was stopped for others, None where it was not."""
        before = f"{self.id}.{self.launches - 1}"
        return self.eviction if self.eviction is not None and self.eviction.allocation_id == before else None

    @property
    def waits_since(self) -> float:
        """From when on it could have run: its submission, or the begin time that it named."""
        return max(self.submitted_at, self.spec.begin_at or 0.0)

    @property
    def title(self) -> str:
        """What to call the job in a sentence: its name, or its id when it has none; and its parameters, if any."""
        called = self.spec.name or f"job {self.id}"
        if not self.spec.params:
            return called
        named = named_values(self.spec.params)
        return f"{called} ({named if len(named) <= MAX_TITLED_PARAMS else named[: MAX_TITLED_PARAMS - 1] + '…'})"
