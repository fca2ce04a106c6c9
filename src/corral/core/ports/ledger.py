"""The ledger as control needs it: the newest view, commits, and records of ended jobs."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from corral.core.model.devices.group_use import EndedJobSums, KpiBy
from corral.core.model.devices.means import Means
from corral.core.model.fact import Delta, Fact, Observation
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.job_filter import JobFilter
from corral.core.model.jobs.job_sort import JobSort
from corral.core.model.placing.allocation import Allocation, Grant
from corral.core.model.runs.run_history import AllocatedTime, HeldAllocation
from corral.core.model.slice import LedgerSnapshot, S
from corral.core.model.token import Token
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.model.view import View
from corral.fair_queue import SERVER
from corral.histogram import SECONDS, SIZES, Histogram

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Decided(Generic[T]):
    """The decision of a ledger operation: the facts to write, and the value for the caller."""

    facts: tuple[Fact, ...]
    value: T


@dataclass(frozen=True, slots=True)
class HeldBy:
    """Selects jobs whose first device is held by `means`, or was in their last allocation (`Device.held_by`).

    `devices` are the UUIDs of devices that are shared by `means`. `parts` are those of slices and replicas, which are
    never whole devices.
    """

    means: Means
    devices: frozenset[str]
    parts: frozenset[str]

    def has(self, first: Grant) -> bool:
        """Return whether a job with this grant of its first device is selected."""
        whole = first.share_milli == MILLI_PER_DEVICE and first.uuid not in self.parts
        return whole if self.means is Means.EXCLUSIVE else first.uuid in self.devices and not whole


@dataclass(frozen=True, slots=True)
class JobQuery(JobFilter):
    """A page of the jobs of a filter, newest first, or the first ones in another order.

    Attributes:
        limit: the most jobs; None is all.
        sort: their order; None is newest first. `now` is the end of the running time of live jobs.
        held: how jobs hold their devices; None selects all jobs.
    """

    limit: int | None = None
    sort: JobSort | None = None
    now: float = 0.0
    held: HeldBy | None = None


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One durable fact. `sequence` has no gaps."""

    sequence: int
    at: float
    fact: Fact


class Ledger(Protocol):
    """The authoritative state. One writer thread, group commit; nothing is published before it is on disk."""

    @property
    def position(self) -> int:
        """The sequence of the newest journal entry that the published view has in it, 0 before the first. Quick."""
        ...

    def view(self) -> View:
        """The newest published view."""
        ...

    def snapshot(self) -> LedgerSnapshot:
        """The newest published view with the slices of its version."""
        ...

    def commit(self, decide: Callable[[View], Decided[T]], *, user: str = SERVER, jobs: int = 1) -> "Future[T]":
        """Run `decide` on the writer's thread over the newest view, write its facts, and resolve with its value.

        Writes of different users take turns: `user` is the user of this one, and `jobs` the number of its jobs. Writes
        of one user are done in order.

        The future resolves once the facts are on disk and their view is published. The future raises the errors of
        `decide` (Refused, Conflict), and then nothing is written. LedgerFailed if the disk or database fails.
        """
        ...

    def commit_in(self, kind: type[S], decide: Callable[[S], Decided[T]], *, user: str = SERVER) -> "Future[T]":
        """Run `decide` as `commit` does, over the slice of a feature after all earlier decisions."""
        ...

    def observe(self, observations: Sequence[Observation]) -> None:
        """Advance the view by measurements, in order with the commits of `SERVER`; they are not written."""
        ...

    def subscribe(self, listener: Callable[[View, Sequence[Delta]], None]) -> None:
        """Call `listener(view, deltas)` on the writer's thread after each publication. It must return at once."""
        ...

    def next_ids(self, count: int) -> tuple[str, ...]:
        """Return job ids that were never given before, not even by an earlier server on this ledger."""
        ...

    def skip_ids(self, number: int, most: int | None = None) -> bool:
        """Give no id up to this number, because a job with this number is known outside of the ledger. Returns at once.

        With `most` nothing happens if more ids than that would be skipped.

        Return whether the ledger could otherwise have given one of these ids.
        """
        ...

    def find_job(self, job_id: str) -> Job | None:
        """Return a job in any phase, ended jobs included."""
        ...

    def find_jobs(self, job_ids: Collection[str]) -> tuple[Job, ...]:
        """Return those of these jobs that exist, in any phase, in no particular order."""
        ...

    def find_array(self, array_id: str) -> tuple[Job, ...]:
        """Return the elements of an array in index order; () if there is no such array."""
        ...

    def last_allocation(self, job: Job) -> Allocation | None:
        """Return the present or last allocation of the job; None if it never had one."""
        ...

    def last_allocations(self, job_ids: Collection[str]) -> Mapping[str, Allocation]:
        """Return the present or last allocation of each of these jobs, without `gpu_info`. Jobs without any are
        missing.
        """
        ...

    def jobs(self, query: JobQuery) -> tuple[Job, ...]:
        """Jobs as committed, in the order of the query."""
        ...

    def allocated(self, since: float, until: float) -> tuple[AllocatedTime, ...]:
        """Return the allocations with devices between two moments (Unix seconds). Live ones count up to the second
        moment.
        """
        ...

    def held(
        self,
        since: float,
        until: float,
        *,
        job_id: str | None = None,
        limit: int | None = None,
        unbilled: bool = False,
    ) -> Iterator[HeldAllocation]:
        """Yield the allocations with devices that `allocated` sums, oldest first, of one job or of all; at most
        `limit`. With `unbilled` also the time that a fault of the site has cost.
        """
        ...

    def ended_jobs(self, since: float, until: float, by: KpiBy | None = None) -> Mapping[str | None, EndedJobSums]:
        """Return the sums of jobs that ended from `since` up to `until` (Unix seconds), by user, project, queue or
        node.

        By `KpiBy.MEANS` the keys are "UUID SHARE_MILLI" of a job's first device. The key None is for jobs without
        devices; with `by` None the only key is "".
        """
        ...

    def journal(
        self, *, job_id: str | None = None, after: int = 0, limit: int | None = None
    ) -> tuple[JournalEntry, ...]:
        """Return facts in order, of one job or of all."""
        ...

    def latest_entries(self, job_id: str, limit: int) -> tuple[JournalEntry, ...]:
        """The newest facts about a job, at most `limit`, in order."""
        ...

    def close(self) -> None:
        """Finish accepted work, then stop."""
        ...


@dataclass(slots=True)
class CommitFigures:
    """Counts of the ledger's thread about its transactions; any thread may read.

    Attributes:
        seconds: the time of each transaction, until it was on disk.
        facts: the number of facts in each transaction.
        failures: the number of transactions that the disk refused, without those that an operation made impossible.
    """

    seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    facts: Histogram = field(default_factory=lambda: Histogram(SIZES))
    failures: int = 0


class TokenStore(Protocol):
    """Stores tokens by the digest of their secret. `find` reads no disk. Thread-safe."""

    def find(self, digest: str) -> Token | None:
        """Return the token whose secret has this SHA-256, expired ones included, or None."""
        ...

    def all(self) -> tuple[Token, ...]:
        """Return every stored token, oldest first: valid tokens, and the newest of those that expired or were
        revoked.
        """
        ...

    def add(self, token: Token, digest: str) -> Token:
        """Store a token on disk, and return it with its id. Raises LedgerFailed."""
        ...

    def revoke(self, token_ids: Collection[str], at: float) -> None:
        """Make these tokens invalid from `at` on. Raises LedgerFailed if they may be valid again after a restart."""
        ...

    def used(self, token_id: str, at: float) -> None:
        """Record that the token was used at this time. The record is on disk a minute later."""
        ...
