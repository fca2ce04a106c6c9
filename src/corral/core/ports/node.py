"""All work on a host: the node agent, in this process or behind a socket.

Every argument and result is a value that `corral.wire` encodes. The deciding code knows nothing else of a host.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from corral.core.model.answers.devices import SlicePlan
from corral.core.model.devices.device import DeviceSample, Node
from corral.core.model.jobs.input import TerminalSize
from corral.core.model.jobs.job import ProcessIdentity
from corral.core.model.jobs.notification import Notification
from corral.core.model.runs.launch import Launch, LaunchReport
from corral.core.ports.host import Credentials, FileQuery, JobUser
from corral.core.ports.images import ImageFacts
from corral.core.ports.runtime import InnerCommand


@dataclass(frozen=True, slots=True)
class ServiceLost:
    """The sharing service of a device (an MPS daemon) has died, and with it the work of the launches that used it."""

    uuid: str
    reason: str
    launches: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class News:
    """The changes on a node since the last question.

    Attributes:
        sequence: the number to pass with the next question.
        epoch: differs after each start of the agent: its memory is then lost, and it must be reconciled.
        now: the host's clock as the news were sent, Unix seconds.
        node: the inventory; None if it has not changed.
        samples: the newest sample of each device that was sampled since.
        launches: ids of launches with a new report.
        services_lost: launches, not forgotten yet, whose device's sharing service has died.
    """

    sequence: int
    epoch: str
    now: float
    node: Node | None = None
    samples: tuple[DeviceSample, ...] = ()
    launches: tuple[str, ...] = ()
    services_lost: tuple[ServiceLost, ...] = ()


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether work can start: the present state of chosen devices, and obstacles on the host (a full disk)."""

    samples: tuple[DeviceSample, ...]
    obstacle: str | None = None


@dataclass(frozen=True, slots=True)
class Reports:
    """Reports of launches in the order of the request, and the host's clock (Unix seconds) at the time of the
    reports.
    """

    now: float
    reports: tuple[LaunchReport, ...]


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The result of reconciling a node with the ledger.

    Attributes:
        remarks: the faults that were found, a sentence each.
        unknown: launches that the ledger no longer had. They are being ended, and nothing starts on their devices
            before that.
    """

    remarks: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessFound:
    """A process of a host: its identity, its user, and all its living descendants.

    `user` is the name of its user if the host's users are not those of the server's host; then `uid` says nothing.
    """

    identity: ProcessIdentity
    uid: int
    family: tuple[int, ...]
    user: str | None = field(default=None, metadata={"left_out": True})


@dataclass(frozen=True, slots=True)
class LogChunk:
    """A piece of a log. `data` is base64; `size_bytes` is the log's length by now, None if there is no log."""

    data: str
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class InputTaken:
    """The progress of a launch's input.

    Attributes:
        offset: the number of bytes taken, which is the number of the next byte to send.
        open: whether it takes more; False after its input has ended, or once nothing reads it any more.
    """

    offset: int
    open: bool


@dataclass(frozen=True, slots=True)
class ExecOutput:
    """A piece of the output of a command in a launch: `corral.core.ports.runtime.InnerOutput`, its bytes as base64."""

    sequence: int
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class FileFinding:
    """The answer to one question about files: the plain data of a `corral.core.preflight.file_facts.FileFacts`."""

    query: FileQuery
    facts: Mapping[str, Any]


class Keep(StrEnum):
    """The part of a job's scratch that stays on a node after a launch.

    ALL: the job runs again. CHECKPOINTS: it has ended, and did not succeed. NOTHING: nobody needs it any more.
    """

    ALL = "all"
    CHECKPOINTS = "checkpoints"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """The meeting place of a gang's members: rank 0's host, and ports that were free there.

    Attributes:
        port: for the job's own use, MASTER_PORT.
        srun_port: the port at which a script's `srun` meets the members.
        secret: the secret by which `srun` and members authenticate each other.
    """

    address: str
    port: int
    srun_port: int
    secret: str


@dataclass(frozen=True, slots=True)
class SliceChange:
    """An administrator's request to change the slices of a device.

    Attributes:
        profile, count: the number of slices of this profile to add; without a profile all slices are removed.
        in_use: whether jobs have some of its slices.
        apply: whether to do it, not only show it.
    """

    profile: str | None = None
    count: int = 1
    in_use: bool = False
    apply: bool = False


@dataclass(frozen=True, slots=True)
class DeviceTest:
    """A test of a device, or its reset: one order for each `id`.

    Attributes:
        command: the site's command, for a shell; None is Corral's own test.
        timeout_s: after this time it is ended, and the device has failed.
        resets: the device is reset by its vendor's command, and not tested.
    """

    id: str
    uuid: str
    timeout_s: float
    command: str | None = None
    resets: bool = False


@dataclass(frozen=True, slots=True)
class DeviceTestReport:
    """The end of a test or a reset. `failure` says why it failed, a sentence without its full stop; None: it did not.

    `output` is the end of what its command wrote.
    """

    failure: str | None = None
    output: str = ""


@dataclass(frozen=True, slots=True)
class TreeOrder:
    """An uploaded directory that a job needs on a node.

    Attributes:
        mark: identifies the job (`log_mark`).
        user: whose contents it is made of.
        tree: the digest of its tree.
        uid, gid: who owns it then; None is the agent's own user.
        download: the directory in it that is kept for the user when the job has ended; None is none.
    """

    job_id: str
    mark: str
    user: str
    tree: str
    uid: int | None = None
    gid: int | None = None
    download: str | None = None


@dataclass(frozen=True, slots=True)
class LaidOut:
    """The progress of a directory that is made on a node. `done` once the job can run in it."""

    done: bool
    written_bytes: int = 0


class GatherState(StrEnum):
    """What a node knows of the directory that a job leaves. UNKNOWN: nothing is kept here of this job.

    WAITING: the job has not ended here, or it is being read. READY: it can be fetched. NOTHING: the job left no such
    directory. FAILED: it could not be kept.
    """

    UNKNOWN = "unknown"
    WAITING = "waiting"
    READY = "ready"
    NOTHING = "nothing"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Gathered:
    """The directory that a job has left on a node.

    Attributes:
        tree: the digest of its tree; it is a content like the others.
        left_out: paths that are not in it, and why, a sentence each.
        reason: why it could not be kept.
        now: the host's clock, Unix seconds.
    """

    state: GatherState
    tree: str | None = None
    left_out: tuple[str, ...] = ()
    reason: str | None = None
    now: float = 0.0


class NodeNews(Protocol):
    """The changes on a node, for one listener."""

    def since(self, after: int, timeout_s: float) -> News:
        """Wait until there are changes after this sequence number (0: all changes), or the time is up. Return them."""
        ...


class Launches(Protocol):
    """The launches on a node, from the check whether one can start until the ledger has its end."""

    def ready(self, uuids: tuple[str, ...]) -> Readiness:
        """Sample these devices now, and check whether a launch could be written to the host's disk.

        Raises NodeUnreachable, as `launch` does, until the node was reconciled for the first time since its agent
        started.
        """
        ...

    def reconcile(self, allocated: tuple[Launch, ...], waiting: tuple[str, ...]) -> Reconciled:
        """Take over the ledger's state of this node, end launches unknown to the ledger, and clean up after ended ones.

        An allocated launch that was never claimed is declared lost. The other launches get the time limits in
        `allocated`. `waiting` are the ids of jobs that ran before and are to run again: their scratch is kept.
        """
        ...

    def rendezvous(self, launch_id: str) -> Rendezvous:
        """Return where the members of a gang meet. The answer for a launch stays the same while the agent lives."""
        ...

    def launch(self, launch: Launch) -> None:
        """Prepare the devices, then start the work. `reports` returns its progress."""
        ...

    def stop(self, launch_id: str) -> None:
        """Ask the work to end: by the gentle signal, then after the grace period all of its processes are killed."""
        ...

    def signal(self, launch_id: str, name: str) -> None:
        """Send a signal to those processes of the launch that the signal is for. `name` is the word of a
        `CheckpointSignal`.
        """
        ...

    def tell_to_save(self, launch_id: str, name: str, stops_in_s: float | None) -> None:
        """Tell a launch to save its work, by the signal `name` as for `signal`.

        It learns in its scratch that it is stopped in `stops_in_s` seconds. With None it goes on, and only processes
        that catch the signal get it.
        """
        ...

    def set_time_limit(self, launch_id: str, time_limit_s: float) -> None:
        """Replace the time limit of a launch, as `corral.core.ports.runtime.Work.set_time_limit` does."""
        ...

    def reports(self, launch_ids: tuple[str, ...]) -> Reports:
        """Return the current reports of these launches."""
        ...

    def declare_lost(self, launch_id: str, *, ran: bool) -> bool:
        """Take the claim of a launch so that it never runs, as `corral.core.ports.runtime.Work.declare_lost` does."""
        ...

    def forget(self, launch_id: str, *, keep: Keep) -> None:
        """Release the devices of a launch whose end is in the ledger, and remove its record. `keep` says what stays of
        its scratch.
        """
        ...


class Logs(Protocol):
    """The logs of jobs."""

    def read(self, job_id: str, rank: int, offset: int, max_bytes: int, mark: str) -> LogChunk:
        """Return a piece of a member's log, from byte `offset` on. `mark` identifies the job (`log_mark`): the log of
        another job is never returned.
        """
        ...

    def written_since(self, job_id: str, rank: int, ago_s: float, mark: str) -> int | None:
        """Return the byte of a member's log from which on it was written in the last `ago_s` seconds, or a little
        earlier.

        None if the times of the text are unknown. `mark` is that of `read`.
        """
        ...

    def note(self, job_id: str, rank: int, line: str) -> None:
        """Write a line of Corral's own into the log of a member of a job, for its user."""
        ...


class Inputs(Protocol):
    """The input and the terminals of launches."""

    def write(self, launch_id: str, offset: int, data: str, *, end: bool) -> InputTaken | None:
        """Pass input from byte `offset` on to a launch, as much as it accepts now. `data` is base64 of at most 64 KiB.

        Bytes that the launch already has are skipped, so that a call may be repeated. With `end` its input ends after
        these bytes. None if it accepts no input: it has not begun, has ended, or was launched without input.
        """
        ...

    def resize(self, launch_id: str, size: TerminalSize) -> None:
        """Set the size of a launch's terminal and notify its programs. Does nothing if it has no terminal (any
        more).
        """
        ...


class InnerCommands(Protocol):
    """The commands that run inside launches, by ids that the caller chooses."""

    def begin(self, exec_id: str, launch_id: str, command: InnerCommand) -> None:
        """Run a command inside a running launch, once for each `exec_id`.

        A command is ended if no call about it comes for `node_executions.UNHEARD_S`. Raises Conflict if the launch does
        not run, Refused if it takes no command.
        """
        ...

    def write(self, exec_id: str, offset: int, data: str, *, end: bool) -> InputTaken | None:
        """Pass input to the command, as `Inputs.write` does. None if the command does not exist (any more)."""
        ...

    def resize(self, exec_id: str, size: TerminalSize) -> None:
        """Set the size of the command's terminal, if it has one."""
        ...

    def read(self, exec_id: str, after: int) -> ExecOutput | None:
        """Return the piece of the command's output after piece number `after`. The call may be repeated.

        None if the command does not exist (any more).
        """
        ...

    def end(self, exec_id: str) -> None:
        """End the command with all processes that it has started, and remove its record."""
        ...


class Trees(Protocol):
    """The directories of jobs whose users share no file system with the node.

    Each is made of contents that this server has sent for the same user, or that an earlier job of the user had here.
    """

    def missing(self, order: TreeOrder) -> tuple[str, ...]:
        """Return the contents to send next, at most 2,000; () if all are here. First comes that of the tree itself.

        Raises Refused for a tree that is not safe to write, or too large.
        """
        ...

    def add(self, user: str, contents: tuple[str, ...]) -> None:
        """Keep contents, each in base64, for this user. Raises Refused beyond its limit, NodeLacks for a full disk."""
        ...

    def lay_out(self, order: TreeOrder) -> LaidOut:
        """Begin to make the directory, or return how far it is. A directory of an earlier attempt is used as it is.

        Raises what has failed; the next call begins anew.
        """
        ...

    def gathered(self, job_id: str, mark: str) -> Gathered:
        """Return what the job has left for its user."""
        ...

    def read(self, job_id: str, mark: str, digests: tuple[str, ...]) -> tuple[str, ...]:
        """Return contents of what the job has left, each in base64: the first of these digests, as many as fit into
        4 MiB, at least one. Raises NodeLacks if one is not kept any more.
        """
        ...


class HostAccess(Protocol):
    """The machine of a node, apart from the launches on it: its processes, files and devices."""

    def process(self, pid: int) -> ProcessFound | None:
        """Return the running process with this pid, None if there is none."""
        ...

    def fence(self, pid: int, uid: int, boot_id: str, uuids: tuple[str, ...]) -> str | None:
        """Keep a running process of this user, and all that it will start, from all GPUs but these. Return why they are
        not kept from them, or only by accident; None if they are.

        `boot_id` is that of the machine that knows the process. Raises Conflict if no such process of the user runs,
        and BackendFailed if this machine fences jobs and cannot fence it.
        """
        ...

    def inspect(self, queries: tuple[FileQuery, ...], who: Credentials | None) -> tuple[FileFinding, ...]:
        """Return the findings about users' files, read with the rights of `who` (None: the agent's own). Queries that
        took too long are left out.
        """
        ...

    def image(self, name: str) -> ImageFacts | None:
        """Return the facts about an image of containers; None if it is not on this host, or there is no Docker.

        Raises BackendFailed if Docker does not answer in time.
        """
        ...

    def rescan(self, allocated: tuple[Launch, ...]) -> tuple[str, ...]:
        """Compare the resource files of jobs with their allocations and correct them. Return the differences, a
        sentence each.
        """
        ...

    def notify(self, notification: Notification) -> bool:
        """Run a notification once, as soon as there is room for it. Its output goes into its job's log.

        True once it is recorded, now or earlier: then it runs once, even if the agent restarts. False if too many of
        its user's notifications wait here.
        """
        ...

    def change_slices(self, uuid: str, change: SliceChange) -> SlicePlan:
        """Cut or remove slices of a device, or show how. Return the plan and whether it was carried out.

        Raises Refused if the device has no room for them, Forbidden if the site lets nobody change slices, and
        BackendFailed if the vendor's program fails.
        """
        ...

    def driver_log(self, uuid: str) -> tuple[str, ...] | None:
        """Return the driver's last lines about a device in the kernel's log, oldest first, since the agent's start.

        None if the agent cannot read that log.
        """
        ...

    def reaches(self, meeting: Rendezvous) -> str | None:
        """Try to reach a meeting place on another node, whose agent answers there between `Launches.rendezvous` and the
        launch. Return why it cannot be reached, None if it can.
        """
        ...

    def test_device(self, test: DeviceTest) -> DeviceTestReport | None:
        """Begin a test unless it has begun. Return its report; None until its end.

        One test of a device runs at a time; another is begun after that. After a restart of the agent it begins anew.
        """
        ...


class AccountChecks(Protocol):
    """The accounts of a host whose users are not those of the server's host: jobs run there as their users by name."""

    def lacks(self, users: tuple[JobUser, ...]) -> tuple[str | None, ...]:
        """Return why no job of each user can run on this host: a sentence without its full stop. None if it can."""
        ...


@dataclass(frozen=True, slots=True)
class InstallationState:
    """An agent's own program and host.

    Attributes:
        instance: one word for each start of the agent.
        version: the name of the version that runs; "" if no server installed it.
        release: the version of Corral.
        machine: the architecture of the host, such as x86_64.
        libc: its C library, such as "glibc 2.36"; "" if unknown.
        launches: the ids of the launches that run there.
    """

    instance: str
    version: str
    release: str
    machine: str
    libc: str
    launches: tuple[str, ...]


class Installation(Protocol):
    """The program of an agent that a server installed on another host.

    The server's key reaches nothing but the agent there, so that the agent itself is how a new version comes.
    """

    def state(self) -> InstallationState:
        """Return what runs now."""
        ...

    def offer(self, version: str, size: int, sha256: str) -> int:
        """Announce a version. Return how many of its bytes are here already, from an attempt that was cut off."""
        ...

    def write(self, version: str, offset: int, data: str) -> int:
        """Take a piece of the version's bytes, as base64. Return how many are here then."""
        ...

    def switch(self, version: str, settings: str) -> None:
        """Unpack the version, write the agent's settings, and replace the agent by one of this version.

        Jobs run on. Nothing is changed unless the bytes have the announced hash.
        """
        ...

    def remove(self, *, even_if_jobs_run: bool) -> None:
        """End the agent, and remove what was installed. Raises Conflict while launches run."""
        ...


class NodeAgent(Protocol):
    """The agent of one host, as a part for each kind of question. A part is None if the node has nothing of its kind.

    Every call of a part may be repeated, and none waits for a device, a daemon or a job. It raises BackendFailed if the
    host cannot do it. The subclass NodeUnreachable means that the agent did not answer within the call's deadline: the
    call may have been carried out.
    """

    @property
    def news(self) -> NodeNews | None:
        """The node's own news. None if the node's engine has one feed for all its nodes."""
        ...

    @property
    def launches(self) -> Launches: ...

    @property
    def logs(self) -> Logs: ...

    @property
    def inputs(self) -> Inputs | None:
        """The input of launches. None if launches on this node take no input."""
        ...

    @property
    def executions(self) -> InnerCommands: ...

    @property
    def trees(self) -> Trees | None:
        """The directories that are sent for jobs. None if jobs on this node get none."""
        ...

    @property
    def host(self) -> HostAccess | None:
        """The node's machine. None if only its launches are visible."""
        ...

    @property
    def accounts(self) -> AccountChecks | None:
        """The node's accounts. None if its users are those of the server's host."""
        ...

    def close(self) -> None:
        """Release the host; work on it goes on."""
        ...
