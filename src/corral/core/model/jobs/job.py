"""A job: the request, its user, and its progress."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from corral.core.model.devices.means import Means
from corral.core.model.field import RESERVE, SUBMIT, Field, JobOption, Kind
from corral.core.model.files.upload import Upload
from corral.core.model.jobs.checkpoint_signal import WORDS
from corral.core.model.jobs.container import Container
from corral.core.model.jobs.input import TerminalSize
from corral.core.model.jobs.named_values import named_values
from corral.core.model.jobs.notification import MAX_COMMAND_LENGTH, NotifyOn
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.pod_ref import PodRef
from corral.core.model.jobs.site_faults import Avoided, OnFault
from corral.core.model.jobs.sweep import Params
from corral.core.model.known_fields import known_fields
from corral.core.model.placing.eviction import Eviction
from corral.core.model.placing.placement_rules import PlacementRules
from corral.core.model.placing.split import Strategy
from corral.core.model.units import MILLI_PER_DEVICE, SHARE_QUANTUM_MILLI

if TYPE_CHECKING:
    from corral.core.model.devices.device import Device

DEFAULT_PRIORITY = 5
"""A lower number runs first."""

MAX_DEVICES = 100_000
MAX_LABELS = 100
MAX_MIB = 2**40
MAX_POWER_LIMIT_W = 10_000
MAX_TITLED_PARAMS = 60
"""The most characters of a job's parameters in a sentence; the rest is cut off."""


class JobKind(StrEnum):
    """The holder of the devices: a process that Corral starts, a session, or a process that already ran."""

    RUN = "run"
    RESERVE = "reserve"
    ADOPT = "adopt"


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process, identified by pid, start time and boot id, because a later process may have the same pid.

    `start_ticks` is field 22 of /proc/PID/stat. `node` is where the process was found; "" if no node was asked.
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
    """The resources that a job asks for. Each of `gang_size` members gets `devices` devices of one node, and of each
    device `share_milli`.

    Attributes:
        devices: devices a member; 0 is a CPU job.
        share_milli: share of each device; 1000 is the whole. A share below 1000 may meet others on the device.
        split_milli: a share from one device (then `share_milli` is the same), or from several devices of a node if no
            device has enough, or if it is above 1000. None is never split. `devices` is 1 in these requests.
        split, may_fragment: how it is split (None: the site's way), and whether it may take a part of more than one
            device.
        share_of_memory: the share is computed from the granted memory on the device, and is at least `share_milli`.
        memory_mib: memory granted on each device, None for the share's part of it.
        memory_percent: the same as a part of the device's, where `memory_mib` is None.
        cores_percent: compute granted on each device, None for the share's part of it.
        mig_profile: each device is a hardware slice of this profile; None is never a slice.
        means: how the device must be shared, None is as it is configured.
        tenant: the user of a request for a part of a device, set by the server: some devices serve one user at a time.
        min_memory_mib: the least memory a device must have in all (a filter, not a grant).
        power_limit_w: the power limit of each device while the job has it; the devices must be whole.
        power_within_mw: only devices with at most this power limit, set by the planner for the site's power budget.
        pack: those with whom it shares its device, set by the planner for a packable job
            (`corral.core.model.runs.packing.pack_key`). It gets an idle device, or one that only they share.
        vendor: the vendor of its devices, by the name in `corral.vendors`; None counts as the first.
        offered_as: the resource by which a pod asks for its devices, set by the engine; None is any.
        models: any of these device models will do (matched as whole words of the model name); () is any.
        min_compute: least compute capability, (major, minor).
        site_min_compute: the site's minimum for every device, set by the server and never above `min_compute`.
        min_driver, min_cuda: least driver and CUDA version of the node, as tuples of integers.
        device_uuids: exactly these devices.
        avoided: devices that it must not get, because they fell sick under the job; set by the server. A request that
            names its devices keeps to those.
        labels: pairs that the node must carry.
        node: the name of the node to run on, None is any. `nodes` are several nodes, any of which will do; () is any.
        excluded_nodes: names of nodes where it must not run.
        prefers: pairs that the node should carry: of nodes that fit, those with most of them come first.
        cpu_milli, host_memory_mib, disk_mib: amounts of the host for each member. The disk is counted, but the limit is
            not enforced.
        one_node: all members of the gang on one node; `spread` puts each on a node of its own.
        avoid_jobs: names of jobs that must not run on the same node (anti-affinity).
        accept_in_use: a device that processes outside Corral use will do, if this much memory (MiB) is still free on
            it.
        rules: further demands on a node: tolerated taints, label expressions, and what runs there.
    """

    devices: Annotated[
        int,
        Field(least=0, most=MAX_DEVICES, hint="0 is a job without a GPU", called="gpus"),
        JobOption("N", "2 or 0.5", name="gpus", kind=Kind.OWN, python="int | float | str | None", on=RESERVE, own=True),
    ] = 1
    """Number of GPUs: 2; 0.5 for half of one; 0 for none.  [default: 1]

    In Python: number of GPUs, 1 by default; 0 for none, 0.5 for half of one, 1.2 spread over several if need be.
    """

    share_milli: Annotated[int, Field(least=1, most=MILLI_PER_DEVICE, hint="1000 is a whole device")] = MILLI_PER_DEVICE
    memory_mib: Annotated[
        int | None, Field(least=1, most=MAX_MIB), JobOption("SIZE", "20G", name="gpu_mem", on=RESERVE, own=True)
    ] = None
    """GPU memory to grant on each shared GPU: 20G.

    In Python: memory to grant on each GPU: "20G"; without `gpus` it also decides the share.
    """

    min_memory_mib: Annotated[int | None, Field(least=1, most=MAX_MIB), JobOption("SIZE", "20G", on=RESERVE)] = None
    """Only GPUs with at least this much memory: 20G (GiB)."""

    models: Annotated[tuple[str, ...], JobOption("NAMES", "'A100,H100'", name="gpu_model", on=RESERVE, own=True)] = ()
    """Only these GPU models: A100,H100.

    In Python: only these GPU models, as a list or with commas: "A100,H100".
    """

    min_compute: Annotated[
        tuple[int, int] | None, JobOption("X.Y", kind=Kind.OWN, python="str | float | None", on=RESERVE, own=True)
    ] = None
    """Minimum compute capability: 8.0."""

    min_driver: Annotated[
        tuple[int, ...] | None, JobOption("X.Y", kind=Kind.OWN, python="str | None", on=RESERVE, own=True)
    ] = None
    """Minimum driver version: 550.54."""

    min_cuda: Annotated[
        tuple[int, int] | None, JobOption("X.Y", kind=Kind.OWN, python="str | int | None", on=RESERVE, own=True)
    ] = None
    """Minimum CUDA version of the driver: 12.1."""

    device_uuids: Annotated[
        tuple[str, ...], JobOption("GPU", "['GPU-8a6f...']", name="device", many=True, on=RESERVE)
    ] = ()
    """Exactly this GPU: UUID, index or NODE:INDEX; may be repeated.

    In Python: UUIDs of exactly the GPUs to use.
    """

    labels: Annotated[
        tuple[tuple[str, str], ...],
        Field(longest=MAX_LABELS),
        JobOption("K=V", name="label", kind=Kind.OWN, python="Mapping[str, str]", many=True, on=RESERVE, own=True),
    ] = ()
    """Only nodes with this label; may be repeated.

    In Python: labels that the node must have: {"cuda-major-version": "12"}.
    """

    cpu_milli: Annotated[
        int,
        Field(least=0, most=10**9, hint="1000 is a whole core"),
        JobOption("N", "1.5", name="cpus", kind=Kind.NUMBER, own=True),
    ] = 0
    """CPU cores.

    In Python: CPU cores, also fractions.
    """

    host_memory_mib: Annotated[int, Field(least=0, most=MAX_MIB), JobOption("SIZE", "16G")] = 0
    """Host memory (RAM): 16G."""

    gang_size: Annotated[
        int, Field(least=1, most=MAX_DEVICES, hint="1 is a job without a gang"), JobOption("M", name="gang")
    ] = 1
    """M members with --gpus each, which start together; the command runs on each, a script on the first.

    In Python: members that start together or not at all, each with `gpus` whole GPUs. The command runs once for each
    member, also if several are on one node; RANK, LOCAL_RANK and WORLD_SIZE tell them apart.
    """

    one_node: Annotated[bool, JobOption()] = False
    """Place all members of the gang on one node."""

    spread: Annotated[bool, JobOption()] = False
    """Place each member of the gang on a different node."""

    avoid_jobs: Annotated[tuple[str, ...], JobOption("NAME", "['sft']", name="avoid", many=True)] = ()
    """Avoid nodes where a job of this name runs; may be repeated.

    In Python: names of jobs that must not run on the same node.
    """

    accept_in_use: Annotated[
        int | None,
        Field(least=0, most=MAX_MIB, hint="MiB that must be free"),
        JobOption("SIZE", "20G", kind=Kind.MEMORY, on=RESERVE),
    ] = None
    """Also accept a GPU that processes outside Corral use, if SIZE is free."""

    split_milli: Annotated[
        int | None, Field(least=SHARE_QUANTUM_MILLI, most=MAX_DEVICES * MILLI_PER_DEVICE, hint="1000 is a whole device")
    ] = None
    split: Annotated[Strategy | None, JobOption("HOW", "evenly", on=RESERVE, own=True)] = None
    """Spread a part over several GPUs: fill (whole GPUs first) or evenly.  [default: fill; with --resource evenly]

    In Python: spreading of a share that needs several GPUs: "fill" takes whole GPUs first, "evenly" equal parts. By
    default the site's setting, else "fill", and "evenly" with `resource`.
    """

    may_fragment: bool = True
    share_of_memory: bool = False
    memory_percent: Annotated[int | None, Field(least=1, most=100)] = None
    cores_percent: Annotated[
        int | None,
        Field(least=1, most=100),
        JobOption("PERCENT", "30", name="gpu_cores", kind=Kind.TEXT_OR_NUMBER, on=RESERVE, own=True),
    ] = None
    """Percent of each shared GPU's compute: 50."""

    mig_profile: Annotated[str | None, JobOption("PROFILE", "1g.10gb", name="mig", on=RESERVE, own=True)] = None
    """Run on a MIG slice of this profile: 1g.10gb.

    In Python: a MIG slice of this profile instead of a GPU: "1g.10gb"; `gpus` counts slices then.
    """

    means: Annotated[Means | None, JobOption("MEANS", "mps", name="share", on=RESERVE, own=True)] = None
    """Means of sharing the GPU: mps, mig, timeslice, hook or exclusive."""

    tenant: str | None = None
    site_min_compute: tuple[int, int] | None = None
    node: str | None = None
    prefers: Annotated[
        tuple[tuple[str, str], ...],
        Field(longest=MAX_LABELS),
        JobOption("K=V", name="prefer", kind=Kind.OWN, python="Mapping[str, str]", many=True, on=RESERVE, own=True),
    ] = ()
    """Nodes with this label first, if any fit; may be repeated.

    In Python: labels that the node should have if possible; nodes with more of them come first.
    """

    disk_mib: Annotated[int, Field(least=0, most=MAX_MIB), JobOption("SIZE", "100G")] = 0
    """Disk of the node: 100G. Counted, not enforced."""

    rules: PlacementRules | None = None
    offered_as: str | None = None
    nodes: Annotated[
        tuple[str, ...],
        JobOption("NAMES", "'gpu-[01-03]' or ['gpu-01', 'gpu-02']", name="node", many=True, on=RESERVE, own=True),
    ] = ()
    """Only this node, or any of these: gpu-01, gpu-[01-03,07].

    In Python: the node to run on, or several of which any will do: "gpu-01", "gpu-[01-03,07]", ["gpu-01", "gpu-02"].
    """

    excluded_nodes: Annotated[
        tuple[str, ...],
        JobOption("NAMES", "'gpu-[01-03]' or ['gpu-01', 'gpu-02']", name="exclude", many=True, on=RESERVE, own=True),
    ] = ()
    """Not on these nodes: gpu-01, gpu-[01-03,07].

    In Python: nodes not to run on, written the same way.
    """

    vendor: Annotated[str | None, JobOption("NAME", "nvidia", on=RESERVE)] = None
    """Only GPUs of this maker: nvidia, amd.

    In Python: only GPUs of this maker: "nvidia", "amd"; by default the site's `default_vendor`.
    """

    power_limit_w: Annotated[
        int | None, Field(least=1, most=MAX_POWER_LIMIT_W), JobOption("WATTS", "300", name="power_limit", on=RESERVE)
    ] = None
    """Power limit of each GPU in watts while the job has it: 300. Whole GPUs only."""

    power_within_mw: Annotated[int | None, Field(least=1, most=MAX_POWER_LIMIT_W * 1000)] = None
    pack: str | None = None

    avoided: Avoided = ()

    @property
    def tells_devices_apart(self) -> bool:
        """Whether the request names or avoids devices, so that devices of equal states may get different answers."""
        return bool(self.device_uuids or self.avoided)

    def may_use(self, device: "Device") -> bool:
        """Whether the request's names of devices, and the devices that it avoids, allow this device."""
        return device.uuid in self.device_uuids if self.device_uuids else not self.avoids(device)

    def avoids(self, device: "Device") -> bool:
        """Whether the request keeps off this device, because it or the device that it is cut from fell sick."""
        return not self.device_uuids and any(one in (device.uuid, device.parent_uuid) for one, _ in self.avoided)

    @property
    def named_nodes(self) -> tuple[str, ...]:
        """The names of the nodes that the request allows; () is any node."""
        return self.nodes if self.node is None else (self.node,)

    @property
    def tells_nodes_apart(self) -> bool:
        """Whether the request names nodes, so that nodes in equal states may get different answers."""
        return self.node is not None or bool(self.nodes or self.excluded_nodes)

    def allows_node(self, name: str) -> bool:
        """Whether the request's names of nodes allow this node."""
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
        """Whether the answer for a node depends on what runs there."""
        return bool(self.avoid_jobs) or (self.rules is not None and self.rules.by_neighbours)

    def without_neighbours(self) -> "Request":
        """The same request as if no other job ran anywhere."""
        if not self.by_neighbours:
            return self
        return replace(self, avoid_jobs=(), rules=None if self.rules is None else self.rules.without_neighbours())


ONE_DEVICE = Request()
"""The default request, made once for all: making a request takes as long as checking it."""


MAX_BEGIN_AT = 1e10
MAX_CHECKPOINT_EVERY_S = 7 * 86400.0
MAX_CHECKPOINT_GRACE_S = 3600.0
MAX_NAME_LENGTH = 200
MAX_SPEEDS = 100
MAX_TIME_LIMIT_S = 1e10

NAME = Field(longest=MAX_NAME_LENGTH)
PRIORITY = Field(least=-1_000_000_000, most=1_000_000_000, hint="a lower number runs first")
TIME_LIMIT = Field(above=0, below=MAX_TIME_LIMIT_S)


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class JobTerms:
    """The fields that a submission and its job have in common. The two subclasses say what the fields mean."""

    name: Annotated[str, NAME, JobOption("TEXT", "sft", on=RESERVE)] = ""
    """Name of the job.

    In Python: the job's name.
    """

    kind: JobKind = JobKind.RUN
    request: Request = field(default_factory=lambda: ONE_DEVICE)
    queue: Annotated[str, NAME, JobOption("NAME", "default")] = "default"
    """Queue to wait in.  [default: default]"""

    project: Annotated[str, NAME, JobOption("NAME", "default")] = "default"
    """Project that the usage counts for.  [default: default]"""

    time_limit_s: Annotated[float | None, TIME_LIMIT, JobOption("TIME", "'2h', or 7200 for seconds", name="time")] = (
        None
    )
    """Time limit: 90s, 30m, 2h, 1d12h, 1:30:00.

    In Python: time limit: "2h", "1:30:00" or "1-12:00:00" as in Slurm, or seconds as a number.
    """

    after: Annotated[
        tuple[str, ...], JobOption("[WHAT:]ID", kind=Kind.OWN, python="JobId | Iterable[JobId]", many=True, own=True)
    ] = ()
    """Start after job ID has succeeded. any:ID: ended; notok:ID: failed; start:ID: started; singleton: after your other
    jobs of this name.

    In Python: jobs that must succeed first: one or a list, by id or handle. Other conditions: "any:17" (ended),
    "notok:17" (failed), "start:17" (started), "corr:17" (same array element), "singleton"; alternatives: "17?any:18".
    """

    begin_at: Annotated[
        float | None,
        Field(least=0, most=MAX_BEGIN_AT),
        JobOption("WHEN", "'16:00' or 'now+2hours'", name="begin", kind=Kind.TEXT_OR_NUMBER, on=SUBMIT, own=True),
    ] = None
    """Earliest start: 16:00, now+2hours, tomorrow, 2026-12-01T08:00."""

    output: Annotated[str | None, JobOption("FILE", "train-%j.out", kind=Kind.PATH, on=SUBMIT)] = None
    """Write the output to this file, not the log: %x-%j.out.

    In Python: files for standard output instead of the log, relative to the working directory: "train-%j.out" (%j id,
    %x name, %A array, %a element, %u user).
    """

    error: Annotated[str | None, JobOption("FILE", "train-%j.err", kind=Kind.PATH, on=SUBMIT)] = None
    """Write standard error to this file, apart from the output.

    In Python: as `output`; without `error`, both go to `output`.
    """

    open_mode: Annotated[str | None, JobOption("MODE", "append", on=SUBMIT)] = None
    """Append to these files at each start, or truncate them: append, truncate.

    In Python: "append" to these files or "truncate" them at each start; by default only the first start truncates.
    """

    workdir: Annotated[str, JobOption("DIR", "/home/me/project", kind=Kind.PATH, own=True)] = "/"
    """Working directory.  [default: this one]"""

    umask: Annotated[int, Field(least=0, most=0o777)] = 0o022
    rlimits: tuple[tuple[str, int], ...] = ()
    checkpoint_signal: Annotated[str | None, Field(among=WORDS), JobOption("SIG@TIME", "USR1@60s", own=True)] = None
    """Signal to send before the job is stopped, at its time limit or for another job: USR1@60s, 60 s before.
    B:USR1@60s is for its main process alone, S:USR1@60s for all others.

    In Python: signal to send before the job is stopped, for another job or at its time limit: "USR1@60s", 60 s
    before and to all of its processes; "B:USR1@60s" to the main one alone, "S:USR1@60s" to all others.
    """

    checkpoint_grace_s: Annotated[float, Field(above=0, most=MAX_CHECKPOINT_GRACE_S)] = 60.0
    on_fault: Annotated[OnFault | None, JobOption("WHAT", "requeue")] = None
    """When one of its GPUs falls sick: requeue (stop it, start it on others), checkpoint (signal it first), leave.

    In Python: what to do when one of the job's GPUs falls sick: "requeue" stops it and starts it on others,
    "checkpoint" sends its checkpoint signal first, "leave" lets it run. By default the queue's setting, else
    "requeue" for a job with retries or checkpoints and "leave" for others.
    """

    checkpoint_every_s: Annotated[
        float | None, Field(least=1, most=MAX_CHECKPOINT_EVERY_S), JobOption("TIME", "'10m', or 600 for seconds")
    ] = None
    """Send the checkpoint signal also this often, to processes that catch it: 10m.

    In Python: send the checkpoint signal also this often, to processes that catch it: "10m", or seconds as a number.
    """

    checkpoint_dir: Annotated[str | None, JobOption("DIR", "checkpoints/%j", kind=Kind.PATH)] = None
    """Directory of its checkpoints, where the next attempt finds the last: checkpoints/%j.  [default: in
    $CORRAL_SCRATCH]

    In Python: directory of its checkpoints, where the next attempt finds the last, named as `output` is; without it
    a job with a checkpoint signal has one in its scratch directory.
    """

    speeds: Annotated[
        tuple[tuple[str, float], ...],
        Field(longest=MAX_SPEEDS),
        JobOption("MODEL=X,..", name="speed", kind=Kind.OWN, python="str | Mapping[str, float] | None", own=True),
    ] = ()
    """Relative speed on each GPU model, 0 if it cannot run there: v100=1,k80=0.2."""

    movable: Annotated[bool, JobOption()] = False
    """Allow the job to be stopped and started elsewhere, so that another job finds room (`corral rebalance`).

    In Python: whether the job may be stopped and started elsewhere, so that another job finds room.
    """

    packable: Annotated[bool, JobOption()] = False
    """Share its GPU with your other jobs of the same program that say so, as many as the site allows; add --gpu-mem.

    In Python: whether the job may share its GPU with your other jobs of the same program that say so, as many as the
    site allows. It needs `gpu_mem`, or earlier runs whose memory was measured; else it has a GPU alone.
    """

    script: bool = False
    git_commit: str | None = None
    git_dirty: bool | None = None
    notify: Annotated[
        str | None, Field(shortest=1, longest=MAX_COMMAND_LENGTH), JobOption("CMD", "notify-send done")
    ] = None
    """Shell command to run once when the job has ended: 'mail -s "$CORRAL_JOB_NAME $CORRAL_PHASE" me'.

    In Python: shell command to run once when the job has ended for good (of an array, when all its jobs have), as you.
    CORRAL_PHASE, CORRAL_EXIT_CODE, CORRAL_REASON and CORRAL_LOG tell it how.
    """

    notify_on: Annotated[tuple[NotifyOn, ...], JobOption("WHAT,..", "['done', 'failed']")] = ()
    """Events to report in your channel: started, done (succeeded), failed.

    In Python: events to report in your channel: "started", "done", "failed", or a list of these.
    """

    stdin: bool = False
    terminal: TerminalSize | None = None
    container: Container | None = None
    input: Annotated[str | None, JobOption("FILE", "train.txt", kind=Kind.PATH, on=SUBMIT)] = None
    """Read standard input from this file: train.txt, part-%a.txt.

    In Python: file to read standard input from, named the same way; without one it is empty.
    """

    upload: Upload | None = None
    download: Annotated[str | None, Field(shortest=1, longest=1000), JobOption("DIR", "out", kind=Kind.TEXT)] = None
    """With --upload: directory in it that comes back when the job has ended: out.

    In Python: with `upload`, the directory in it that comes back when the job has ended: "out".
    """


@dataclass(frozen=True, slots=True)
class JobSpec(JobTerms):
    """One submission as it was accepted. Afterwards only a `JobUpdated` changes it.

    Attributes:
        priority: a lower number runs first; 5 is the default.
        time_limit_s: the job is ended after this time; None is no limit.
        retries: further attempts after a failure or a loss.
        after: conditions on other jobs, in the syntax of `corral.core.model.jobs.dependency`.
        begin_at: not to be started before, in Unix seconds; None is at once.
        output, error, input, open_mode, script, git_commit, git_dirty: as `Submission` has them.
        env: includes the copy of the job's script (see `corral.core.model.jobs.script_copy`).
        speeds: how fast the job runs on each device model, (model, speed) pairs; 0 means that it cannot run there.
        on_fault: what becomes of it when one of its devices falls sick; None is as its queue says, or by its retries
            and checkpoints.
        checkpoint_signal: sent before the job is stopped to make room, or at its time limit, such as "USR1" (to all of
            its processes) or "B:USR1" (see `corral.core.model.jobs.checkpoint_signal`); None is none. The stop follows
            `checkpoint_grace_s` later.
        checkpoint_every_s: the interval at which processes that catch the signal get it while they run; None is never.
        checkpoint_dir: a pattern as that of `output`; None is a directory in the job's scratch.
        owner: for a reservation, the session leader whose end releases it. For an adoption, the process.
        notes: lines for the head of the job's log: amounts that were rounded, and warnings of preflight.
        stdin, terminal: as `Submission` has them.
        forced_by: the user who forced it although preflight had said that it cannot run; None if there is none.
        notify: a shell command that runs once, after the final end of the job or of the whole array.
        notify_on: the events that the user's channel reports.
        uid, gid, groups: the submitting user as the kernel names it; None on a server that is not root's.
        container: the container of its command; None is a process of the host.
        upload: the directory that its nodes get before it starts, and in which it runs; None if it uses those of its
            nodes.
        download: the directory, relative to `workdir`, that is kept for its user when it has ended.
        pods: pods that others made, one for each member in the order of ranks. The job starts by binding each to its
            node. () for any other job.
        params: its values of a sweep's parameters, which are also in its environment; () for any other job.
    """

    user: str
    command: tuple[str, ...] = ()
    priority: int = DEFAULT_PRIORITY
    retries: int = 0
    env: tuple[tuple[str, str], ...] = ()
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    owner: ProcessIdentity | None = None
    notes: tuple[str, ...] = ()
    forced_by: str | None = None
    params: Params = ()
    pods: tuple[PodRef, ...] = ()

    @property
    def namespace(self) -> str | None:
        """The Kubernetes namespace of its pods that others made, which all lie in one; None for any other job."""
        return self.pods[0].namespace if self.pods else None

    @property
    def takes_input(self) -> bool:
        """Whether somebody sends input to the job's program, through a pipe or a terminal."""
        return self.stdin or self.terminal is not None


@dataclass(frozen=True, slots=True)
class Job:
    """One submission with its phase. An array is a parent id and one job per element.

    Times are Unix seconds by the server's clock (`corral.clock`). `started_at` and `ended_at` come from the supervisor,
    which uses the same clock. `sequence` orders submissions and breaks every tie.

    Attributes:
        launches: how often it was given devices; numbers its allocations.
        attempts: launches of which something ran.
        launch_failures: consecutive launches that failed because of the machine.
        eligible_at: the earliest start: its begin time, or later the end of a pause after a failed launch or attempt;
            None is at once.
        held: a hold, by a user or by the server; a held job stays PENDING.
        held_because: why the server holds it, a sentence without its full stop; then only an administrator releases it.
            None if nobody or a user holds it.
        stop_reason: while STOPPING, the phase that it will end in.
        waits_for: ids of the jobs of `spec.after` that it still depends on. A long list may keep ids that are done
            until the last is.
        conditions: the remaining conditions of `spec.after`, if `waits_for` does not say them; () is all of them.
        reason: why it ended as it did, for a person.
        devices: UUIDs of the last allocation, kept after the end.
        site_faults: how often it was requeued because a device fell sick; these attempts use up no retries.
        eviction: the last time it was stopped for others, or because of a device; None if it never was. `evictions`
            counts how often it was requeued for others, and `lost_s` is the run time that it lost by both.
        input_taken: its program has read some of its input, which cannot be sent again to another run.
        waited: the reasons of the wait before the last start, (reason, seconds) pairs in the order of first occurrence.
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
    held_because: str | None = None
    site_faults: int = 0

    @property
    def evicted(self) -> Eviction | None:
        """The eviction that ended the job's last launch to make room for other jobs, None if nothing evicted it."""
        last = f"{self.id}.{self.launches}"
        return self.eviction if self.eviction is not None and self.eviction.allocation_id == last else None

    @property
    def evicted_before(self) -> Eviction | None:
        """The eviction that ended the job's launch before the last, None if nothing evicted that launch."""
        before = f"{self.id}.{self.launches - 1}"
        return self.eviction if self.eviction is not None and self.eviction.allocation_id == before else None

    @property
    def waits_since(self) -> float:
        """The time since when the job could have run: its submission, or its begin time (Unix seconds)."""
        return max(self.submitted_at, self.spec.begin_at or 0.0)

    @property
    def title(self) -> str:
        """The name of the job in a sentence: its name, or its id if it has none; with its parameters, if any."""
        called = self.spec.name or f"job {self.id}"
        if not self.spec.params:
            return called
        named = named_values(self.spec.params)
        return f"{called} ({named if len(named) <= MAX_TITLED_PARAMS else named[: MAX_TITLED_PARAMS - 1] + '…'})"
