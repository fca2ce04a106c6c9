"""The few Protocols between the core and its edges. `control` knows these and nothing concrete behind them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NamedTuple, Protocol, TypeVar

from corral.model.allocation import Allocation
from corral.model.device import DeviceSample, Node
from corral.model.fact import Delta, Fact, Observation
from corral.model.job import Job, Phase, ProcessIdentity
from corral.model.run_history import HeldTime
from corral.model.token import Token
from corral.model.view import View

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Decided(Generic[T]):
    """What a ledger operation decided: the facts to write, and the value for whoever asked."""

    facts: tuple[Fact, ...]
    value: T


@dataclass(frozen=True, slots=True)
class JobQuery:
    """A page of jobs, newest first. `phases` empty means every phase; `after` is the sequence to go on below."""

    user: str | None = None
    phases: tuple[Phase, ...] = ()
    array_id: str | None = None
    name: str | None = None
    limit: int | None = None
    before_sequence: int | None = None


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One durable fact. `sequence` has no gaps."""

    sequence: int
    at: float
    fact: Fact


class Ledger(Protocol):
    """The truth. One writer thread, group commit; nothing is published before it is on disk."""

    def view(self) -> View:
        """The newest published view."""
        ...

    def commit(self, decide: Callable[[View], Decided[T]]) -> "Future[T]":
        """Run `decide` on the writer's thread over the newest view, write its facts, and resolve with its value.

        The future resolves after the facts are on disk and the view they make is published. What `decide` raises
        (Refused, Conflict) the future raises, and nothing is written. LedgerFailed when the disk or database fails.
        """
        ...

    def observe(self, observations: Sequence[Observation]) -> None:
        """Advance the view by measurements, in order with the commits; they are not written."""
        ...

    def subscribe(self, listener: Callable[[View, Sequence[Delta]], None]) -> None:
        """Call `listener(view, deltas)` on the writer's thread after each publication. It must return at once."""
        ...

    def next_ids(self, count: int) -> tuple[str, ...]:
        """Fresh job ids, never given before, also not by an earlier server on this ledger."""
        ...

    def find_job(self, job_id: str) -> Job | None:
        """A job in any phase, ended ones included."""
        ...

    def find_jobs(self, job_ids: Collection[str]) -> tuple[Job, ...]:
        """Those of these jobs that exist, in any phase, in no particular order."""
        ...

    def find_array(self, array_id: str) -> tuple[Job, ...]:
        """The elements of an array in index order, () if there is no such array."""
        ...

    def last_allocation(self, job: Job) -> Allocation | None:
        """What the job holds or held last, None when it never held anything."""
        ...

    def jobs(self, query: JobQuery) -> tuple[Job, ...]:
        """Jobs as committed, newest first."""
        ...

    def held(self, since: float, until: float) -> tuple[HeldTime, ...]:
        """What allocations with devices came to between two moments (Unix seconds), live ones as if given back then."""
        ...

    def journal(
        self, *, job_id: str | None = None, after: int = 0, limit: int | None = None
    ) -> tuple[JournalEntry, ...]:
        """Facts in order, of one job or of all."""
        ...

    def close(self) -> None:
        """Finish what was accepted, then stop."""
        ...


class TokenStore(Protocol):
    """Tokens by the digest of their secret. Looking costs no disk; safe from any thread."""

    def find(self, digest: str) -> Token | None:
        """The token whose secret has this SHA-256, also one that is over; None when there is none."""
        ...

    def all(self) -> tuple[Token, ...]:
        """Every token that is kept, oldest first: those that are good, and the last that are over."""
        ...

    def add(self, token: Token, digest: str) -> Token:
        """Keep a token on disk, and return it with its id. Raises LedgerFailed."""
        ...

    def revoke(self, token_ids: Collection[str], at: float) -> None:
        """Let these be good for nothing from now on. Raises LedgerFailed when that may be forgotten at a restart."""
        ...

    def used(self, token_id: str, at: float) -> None:
        """Note that it was used; on disk a minute later."""
        ...


class LaunchPhase(StrEnum):
    """What a runtime knows of a launch."""

    UNKNOWN = "unknown"
    CLAIMED = "claimed"
    RUNNING = "running"
    EXITED = "exited"
    DEAD = "dead"
    DECLARED_LOST = "declared lost"


@dataclass(frozen=True, slots=True)
class LaunchReport:
    """The state of one launch. Times by the supervisor's clock.

    `ending` is the phase the supervisor says the work ended in: SUCCEEDED, FAILED, CANCELLED or TIMED_OUT.
    DECLARED_LOST never ran and is safe to try again; `reason` then says what failed, None when nothing did. `age_s` is
    how long what sees to its time limit has done so, by a clock that nobody sets; None where nothing outside of this
    server does.
    """

    allocation_id: str
    phase: LaunchPhase
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    ending: Phase | None = None
    reason: str | None = None
    age_s: float | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """What a runtime needs to run a job once. `env` is complete.

    `cpu_milli` and `host_memory_mib` are the job's part of the host, 0 being all, and it is held to it where possible.
    """

    allocation_id: str
    job: Job
    env: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()
    cpu_milli: int = 0
    host_memory_mib: int = 0


@dataclass(frozen=True, slots=True)
class Lineage:
    """What tells the processes of a launch from others on their host; nothing in it is their own word.

    Attributes:
        root: the process that they descend from.
        adopts: they do so as long as it lives, because it takes in those whose parents have ended (a subreaper).
        cgroup: the one they were started in, as /proc/PID/cgroup names it; None where there is none.
    """

    root: ProcessIdentity | None = None
    adopts: bool = False
    cgroup: str | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """By what the processes of a job are known. `uid` is whose its processes are that descend from none of Corral's.

    Such a process is the job's if it is that user's and its environment says so; None where none is believed.
    """

    job_id: str
    lineage: Lineage
    uid: int | None = None


class Runtime(Protocol):
    """Runs work. Every call is idempotent by allocation id and safe from any thread."""

    def launch(self, launch: Launch) -> None:
        """Start the work, or raise BackendFailed; the outcome comes through `report`."""
        ...

    def stop(self, allocation_id: str) -> None:
        """Ask the work to end: the gentle signal, the grace, then every process of it is killed.

        To be asked again while it has not ended.
        """
        ...

    def report(self, allocation_id: str) -> LaunchReport:
        """What is known of the launch now."""
        ...

    def declare_lost(self, allocation_id: str, *, ran: bool = False) -> bool:
        """Take the launch's claim so that it can never run. False when a supervisor had it first.

        Also False where that is known although the record is gone: to the caller, who then says `ran`, or from other
        traces. What is left of the work is then ended, and the report becomes DEAD.
        """
        ...

    def launches(self) -> tuple[str, ...]:
        """Allocation ids of every launch that the runtime still has on record."""
        ...

    def forget(self, allocation_id: str) -> None:
        """Drop the record of a launch whose end is in the ledger."""
        ...

    def pids(self, allocation_id: str) -> frozenset[int]:
        """Process ids of the work now."""
        ...

    def lineage(self, allocation_id: str) -> Lineage:
        """By what the processes of the work are known; asked for every look at the devices, so it must be quick."""
        ...

    def close(self) -> None:
        """Let go; the work runs on."""
        ...


class Source(Protocol):
    """Discovers and samples the devices of this host. Calls may be slow or hang: they run on the sampler's thread."""

    name: str

    def node(self) -> Node:
        """The host's inventory. Raises BackendFailed when the driver does not answer."""
        ...

    def sample(self, uuids: Sequence[str] | None = None) -> tuple[DeviceSample, ...]:
        """One sample of each device, or of those named; a device that cannot be read has its `fault` set."""
        ...

    def close(self) -> None:
        """Let the driver session go."""
        ...


class Telemetry(Protocol):
    """What control needs of the sampler."""

    def latest(self) -> dict[str, DeviceSample]:
        """The last sample of each device by UUID, however old."""
        ...

    def refresh(self, uuids: Sequence[str], timeout_s: float) -> tuple[Observation, ...]:
        """Sample these devices now; a device that does not answer in time comes back unreadable."""
        ...


class Processes(Protocol):
    """What control needs of the host's process table."""

    def alive(self, process: ProcessIdentity) -> bool:
        """Whether exactly this process still runs."""
        ...

    def identify(self, pid: int) -> ProcessIdentity | None:
        """The identity of a running process, None when there is none."""
        ...

    def uid(self, process: ProcessIdentity) -> int | None:
        """The real user id that the process runs as, None when it is gone."""
        ...

    def family(self, pid: int) -> frozenset[int]:
        """The pids of a process and of all its living descendants."""
        ...


class Credentials(NamedTuple):
    """Whose rights a process has."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


class FileQuery(NamedTuple):
    """What is to be found out from a user's files: whether a job can work in `directory`, or what a program brings.

    Attributes:
        program: the first word of a command, a path or a name to be looked for on PATH.
        model: directory or cached name of the model that the program is to load.
        workdir: what relative paths start from.
        variables: those of the job's environment that say where to look, by name.
    """

    directory: str | None = None
    program: str | None = None
    model: str | None = None
    workdir: str = "/"
    variables: tuple[tuple[str, str], ...] = ()


class FileInspector(Protocol[T_co]):
    """Reads files of users, who may change them, or let a reader wait for ever, as they like."""

    def inspect(self, queries: Sequence[FileQuery], who: Credentials | None) -> Mapping[FileQuery, T_co]:
        """What was found with the rights of `who`, None being the server's own; what took too long is left out."""
        ...
