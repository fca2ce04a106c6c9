"""The ledger as control needs it: the newest view, commits, and records of ended jobs."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

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
from corral.core.model.tuning.experiment import Experiment
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
    """Jobs whose first device is, or was at last, held by these means (`Device.held_by`).

    `devices` are the UUIDs shared in this way. `parts` are those of slices and replicas, none of which is a whole
    device.
    """

    means: Means
    devices: frozenset[str]
    parts: frozenset[str]

    def has(self, first: Grant) -> bool:
        """Return whether a job with this grant of its first device is among them."""
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
        """As `commit`, for a feature: `decide` gets the feature's slice, with all earlier decisions."""
        ...

    def observe(self, observations: Sequence[Observation]) -> None:
        """Advance the view by measurements, in order with the commits of `SERVER`; they are not written."""
        ...

    def subscribe(self, listener: Callable[[View, Sequence[Delta]], None]) -> None:
        """Call `listener(view, deltas)` on the writer's thread after each publication. It must return at once."""
        ...

    def next_ids(self, count: int) -> tuple[str, ...]:
        """Fresh job ids, never given before, also not by an earlier server on this ledger."""
        ...

    def skip_ids(self, number: int) -> bool:
        """Give no id up to this number: something outside of the ledger knows a job by it. Quick.

        Return whether one of them could have been given otherwise.
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
        self, since: float, until: float, *, job_id: str | None = None, limit: int | None = None
    ) -> Iterator[HeldAllocation]:
        """Yield the allocations with devices that `allocated` sums, oldest first, of one job or of all; at most
        `limit`.
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
        seconds: the time of each, until it was on disk.
        facts: the number of facts in each.
        failures: the number of transactions that the disk refused, without those that an operation made impossible.
    """

    seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    facts: Histogram = field(default_factory=lambda: Histogram(SIZES))
    failures: int = 0


@dataclass(frozen=True, slots=True)
class ExperimentSums:
    """The number of a task's experiments and of the successful ones, and the best one with its score."""

    experiments: int = 0
    succeeded: int = 0
    best_id: str | None = None
    best_score: float | None = None


class ExperimentStore(Protocol):
    """Experiments of tasks, as committed. Safe from any thread."""

    def find(self, experiment_id: str) -> Experiment | None:
        """The experiment of this id, with its metrics."""
        ...

    def of_task(self, task_id: str, *, after: int, limit: int, metrics: bool) -> tuple[Experiment, ...]:
        """The experiments of a task with numbers above `after`, in order; with their metrics only if `metrics` is
        set. A page with metrics is limited in bytes, so it may have fewer than `limit` experiments, but at least one
        if any are left.
        """
        ...

    def picked(
        self, task_id: str, paths: Sequence[tuple[str, ...]], *, after: int, limit: int
    ) -> Mapping[str, tuple[Any, ...]]:
        """Return, by id of the experiments in `of_task`, the values at these paths of the metrics; None for missing
        values.

        Experiments without metrics are missing.
        """
        ...

    def last_number(self, task_id: str) -> int:
        """The number of the last experiment of a task, 0 before the first."""
        ...

    def sums(self, task_id: str | None = None) -> Mapping[str, ExperimentSums]:
        """Return the sums by task, of one or of all; a task without experiments is missing."""
        ...


class TokenStore(Protocol):
    """Tokens by the digest of their secret. Looking costs no disk; safe from any thread."""

    def find(self, digest: str) -> Token | None:
        """Return the token whose secret has this SHA-256, expired ones included, or None."""
        ...

    def all(self) -> tuple[Token, ...]:
        """Every token that is kept, oldest first: those that are good, and the last that are over."""
        ...

    def add(self, token: Token, digest: str) -> Token:
        """Keep a token on disk, and return it with its id. Raises LedgerFailed."""
        ...

    def revoke(self, token_ids: Collection[str], at: float) -> None:
        """Let these be good for nothing from now on. Raises LedgerFailed if that may be forgotten at a restart."""
        ...

    def used(self, token_id: str, at: float) -> None:
        """Note that it was used; on disk a minute later."""
        ...
