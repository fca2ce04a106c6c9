"""All that is done on a host: the node agent, in this process or behind a socket.

Whatever goes in or out is a value that `corral.wire` encodes. Nothing else of a host is known to who decides.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from corral.model.answers.devices import SlicePlan
from corral.model.device import DeviceSample, Node
from corral.model.job import ProcessIdentity
from corral.model.launch import Launch, LaunchReport
from corral.model.notification import Notification
from corral.model.terminal import TerminalSize
from corral.ports.host import Credentials, FileQuery
from corral.ports.runtime import InnerCommand


@dataclass(frozen=True, slots=True)
class ServiceLost:
    """The sharing service of a device (an MPS daemon) has died, and with it the work of the launches that used it."""

    uuid: str
    reason: str
    launches: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class News:
    """What happened on a node since it was asked last.

    Attributes:
        sequence: to be given when the next news are asked for.
        epoch: differs after each start of the agent: what it held in memory is gone, and it must be reconciled.
        now: the host's clock as the news were sent, Unix seconds.
        node: the inventory, None where it is as it was told before.
        samples: the newest of each device that was sampled since.
        launches: ids of launches whose report is new.
        services_lost: of the launches that are not forgotten, those whose device's sharing service has died.
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
    """Whether work can be started: chosen devices as they are now, and what is in the way on the host (a full disk)."""

    samples: tuple[DeviceSample, ...]
    obstacle: str | None = None


@dataclass(frozen=True, slots=True)
class Reports:
    """Reports of launches, in the order they were asked for, and the host's clock, Unix seconds, as they were made."""

    now: float
    reports: tuple[LaunchReport, ...]


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What a node that was brought together with the ledger says of itself.

    Attributes:
        remarks: what was amiss, a sentence each.
        unknown: launches that the ledger had no more; they are being ended, and nothing new starts on their devices
            before they are.
    """

    remarks: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessFound:
    """A process of a host: who it is, whose, and it with all its living descendants."""

    identity: ProcessIdentity
    uid: int
    family: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LogChunk:
    """A piece of a log. `data` is base64; `size_bytes` is the log's length by now, None where there is no log."""

    data: str
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class InputTaken:
    """How far a launch has taken its input.

    Attributes:
        offset: so many bytes; the next one to send has this number.
        open: it takes more; not after its input has ended, or once nothing reads it any more.
    """

    offset: int
    open: bool


@dataclass(frozen=True, slots=True)
class ExecOutput:
    """A piece of what a command in a launch has written: `corral.ports.runtime.InnerOutput`, its bytes as base64."""

    sequence: int
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class FileFinding:
    """What was found out for one question about files: the plain data of a `corral.preflight.file_facts.FileFacts`."""

    query: FileQuery
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Where the members of a gang meet: rank 0's host, and ports that were free there.

    Attributes:
        port: for the job's own use, MASTER_PORT.
        srun_port: where a script's `srun` meets the members.
        secret: by which these know each other; nobody else has it.
    """

    address: str
    port: int
    srun_port: int
    secret: str


@dataclass(frozen=True, slots=True)
class SliceChange:
    """A change of the slices of a device that an administrator asks for.

    Attributes:
        profile, count: so many more slices are cut; without a profile all are given up.
        in_use: jobs have some of its slices.
        apply: it is done, not only shown.
    """

    profile: str | None = None
    count: int = 1
    in_use: bool = False
    apply: bool = False


class NodeAgent(Protocol):
    """One host. Every call may be repeated, and none waits for a device, a daemon or a job.

    Raises BackendFailed when the host cannot do it, and of its kinds NodeUnreachable when the agent does not answer
    within the call's deadline: whether it was done is not known then.
    """

    def news(self, after: int, timeout_s: float) -> News:
        """Wait until there is something new after the sequence number, or the time is up. 0 asks for all there is."""
        ...

    def ready(self, uuids: tuple[str, ...]) -> Readiness:
        """Sample these devices now, and see whether a launch could be written down.

        Raises NodeUnreachable, as `launch` does, until the node was reconciled for the first time since it started.
        """
        ...

    def reconcile(self, allocated: tuple[Launch, ...], waiting: tuple[str, ...]) -> Reconciled:
        """Take over what the ledger says is on this node, end what it does not know, and tidy up after what is over.

        An allocated launch that was never claimed is declared lost; the others are held to the time limits they have
        here. `waiting` are the ids of jobs that ran before
        and are to run again: their scratch is kept.
        """
        ...

    def rendezvous(self, launch_id: str) -> Rendezvous:
        """The same answer each time for the same launch, while the agent lives."""
        ...

    def launch(self, launch: Launch) -> None:
        """Make the devices ready, then start the work. What becomes of it is told by `reports`."""
        ...

    def stop(self, launch_id: str) -> None:
        """Ask the work to end: the gentle signal, the grace, then every process of it is killed."""
        ...

    def signal(self, launch_id: str, name: str) -> None:
        """Send a `CheckpointSignal`, written as its one word, to those processes of the launch that it is for."""
        ...

    def set_time_limit(self, launch_id: str, time_limit_s: float) -> None:
        """Hold a launch to another time limit, as `corral.ports.runtime.Runtime.set_time_limit`."""
        ...

    def reports(self, launch_ids: tuple[str, ...]) -> Reports:
        """What is known of these launches now."""
        ...

    def declare_lost(self, launch_id: str, ran: bool) -> bool:
        """Take the claim of a launch so that it never runs; as `corral.ports.runtime.Runtime.declare_lost`."""
        ...

    def forget(self, launch_id: str, keep_scratch: bool) -> None:
        """Its end is in the ledger: release its devices, remove its record, and its scratch unless that is kept."""
        ...

    def rescan(self, allocated: tuple[Launch, ...]) -> tuple[str, ...]:
        """Compare the resource files of jobs with what they hold: what is amiss, a sentence each; it is mended."""
        ...

    def process(self, pid: int) -> ProcessFound | None:
        """A running process, None when there is none of that number."""
        ...

    def read_log(self, job_id: str, rank: int, offset: int, max_bytes: int, mark: str) -> LogChunk:
        """The log of a member of a job, from a byte on. `mark` is the job's (`log_mark`): no other's is given."""
        ...

    def log_written_since(self, job_id: str, rank: int, ago_s: float, mark: str) -> int | None:
        """The byte of the log of a member from which on it was written in the last `ago_s` seconds, or a little
        earlier; None where it is not known when what was written. `mark` is as of `read_log`.
        """
        ...

    def write_input(self, launch_id: str, offset: int, data: str, end: bool) -> InputTaken | None:
        """Give a launch input from byte `offset` on, as much as it takes now; `data` is base64, of 64 KiB at most.

        What it had before is passed over, so that a call may be repeated. With `end` its input ends after these bytes.
        None where it takes no input: it has not begun, has ended, or was launched without.
        """
        ...

    def resize_terminal(self, launch_id: str, size: TerminalSize) -> None:
        """Set the size of a launch's terminal, which tells its programs; nothing where it has none (any more)."""
        ...

    def begin_exec(self, exec_id: str, launch_id: str, command: InnerCommand) -> None:
        """Run a command inside a launch that runs. Once for each `exec_id`, which the caller makes up.

        A command that nobody asks after for `corral.node.node_executions.UNHEARD_S` is ended. Raises Conflict where the
        launch does not run, Refused where it takes no command.
        """
        ...

    def write_exec(self, exec_id: str, offset: int, data: str, end: bool) -> InputTaken | None:
        """Give the command input, as `write_input`; None where there is no such command (any more)."""
        ...

    def resize_exec(self, exec_id: str, size: TerminalSize) -> None:
        """Set the size of the command's terminal, if it has one."""
        ...

    def read_exec(self, exec_id: str, after: int) -> ExecOutput | None:
        """The piece of its output after number `after`, which may be repeated; None as of `write_exec`."""
        ...

    def end_exec(self, exec_id: str) -> None:
        """Nobody wants it any more: it is ended with all that it has started, and forgotten."""
        ...

    def note(self, job_id: str, rank: int, line: str) -> None:
        """Write a line of Corral's own into the log of a member of a job, for its user."""
        ...

    def notify(self, notification: Notification) -> bool:
        """Run a notification once, as soon as there is a place for it; what it says goes into its job's log.

        True once it is written down, or was before: then it is run, also by the next agent, and never again. False
        when as many of its user's wait here as may.
        """
        ...

    def inspect(self, queries: tuple[FileQuery, ...], who: Credentials | None) -> tuple[FileFinding, ...]:
        """What was found out with the rights of `who`, None being the agent's own; what took too long is left out."""
        ...

    def change_slices(self, uuid: str, change: SliceChange) -> SlicePlan:
        """Cut slices of a device or give them up, or show how: the plan, and whether it was carried out.

        Raises Refused where the device has no room for them, Forbidden where the site lets nobody change slices, and
        BackendFailed when the vendor's program fails.
        """
        ...

    def close(self) -> None:
        """Let go of the host; what runs there runs on."""
        ...
