"""The ledger that the rest of the core uses: `corral.core.ports.ledger.Ledger` on one SQLite file."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from corral.core.ledger.batch import Commit, Observe
from corral.core.ledger.database import Database
from corral.core.ledger.ended_jobs import ended_jobs
from corral.core.ledger.held_time import HeldTime
from corral.core.ledger.ids import IdCounter
from corral.core.ledger.reader import Reader
from corral.core.ledger.schema import prepare
from corral.core.ledger.tokens import TokenTable
from corral.core.ledger.writer import Listener, Writer
from corral.core.model.devices.group_use import EndedJobSums, KpiBy
from corral.core.model.errors import LedgerFailed
from corral.core.model.fact import Observation
from corral.core.model.jobs.job import Job
from corral.core.model.placing.allocation import Allocation
from corral.core.model.runs.run_history import AllocatedTime, HeldAllocation
from corral.core.model.slice import LedgerSnapshot, S, SliceType, empty_snapshot
from corral.core.model.view import View
from corral.core.ports.ledger import Decided, JobQuery, JournalEntry
from corral.fair_queue import SERVER

T = TypeVar("T")


def open_ledger(
    url: str,
    empty: View | None = None,
    before_making: Callable[[], None] = lambda: None,
    *,
    slices: Sequence[SliceType] = (),
) -> "SqlLedger":
    """Open the ledger at `url` (sqlite:////path/ledger.db). Make or migrate it as needed.

    The view is built upon `empty`, which says how fast past usage decays. `before_making` is called if there is no
    ledger; nothing is made if it raises. `slices` are those of the features in this process. Raises LedgerFailed if the
    directory is missing, or if the file is locked, damaged, not a ledger, or of a newer Corral.
    """
    database = Database(url)
    if not database.has_content():
        before_making()
    database.create()
    try:
        prepare(database, before_making)
        return SqlLedger(database, empty_snapshot(slices, empty))
    except BaseException:
        database.close()
        raise


class SqlLedger:
    """The implementation of `corral.core.ports.ledger.Ledger`, which has the contract.

    `decide` may be run again if another operation of its batch cannot be written. Only its last run counts. It may read
    through the ledger, which returns committed data, but must not wait for a commit.

    Attributes:
        tokens: the `corral.core.ports.ledger.TokenStore` of this ledger.
        database: for the tables that features have of their own.
        commits: figures of the transactions since the ledger was opened.
    """

    def __init__(self, database: Database, empty: LedgerSnapshot) -> None:
        self.database = database
        self._reader = Reader(database)
        self._held = HeldTime(database)
        boot = self._reader.boot(empty)
        self._ids = IdCounter(boot.next_id)
        self._writer = Writer(database, boot.snapshot, boot.last_entry, self._ids)
        database.watch(lambda: self._writer.last_entry)
        self.tokens = TokenTable(database)
        self.commits = self._writer.figures

    @property
    def lost(self) -> str | None:
        """A message on what happened to the ledger's files; None while they are in place. Each read checks the
        files.
        """
        if self.database.lost is None:
            with suppress(LedgerFailed):
                self.database.look()
        return self.database.lost

    @property
    def position(self) -> int:
        """The sequence of the newest journal entry that the published view includes."""
        return self._writer.position

    def view(self) -> View:
        """The newest published view."""
        return self._writer.snapshot.view

    def snapshot(self) -> LedgerSnapshot:
        """The newest published view with the slices of its version."""
        return self._writer.snapshot

    def commit(self, decide: Callable[[View], Decided[T]], *, user: str = SERVER, jobs: int = 1) -> "Future[T]":
        """Run `decide` on the writer's thread in the user's turn. Then write, publish, and resolve the future."""
        future: Future[T] = Future()
        self._writer.put(Commit(decide, future, jobs), user)
        return future

    def commit_in(self, kind: type[S], decide: Callable[[S], Decided[T]], *, user: str = SERVER) -> "Future[T]":
        """Run `decide` as `commit` does, but over the slice of a feature."""
        future: Future[T] = Future()
        self._writer.put(Commit(decide, future, over=kind), user)
        return future

    def observe(self, observations: Sequence[Observation]) -> None:
        """Advance the view by measurements, in order with the commits of `SERVER`. Measurements are not written."""
        self._writer.put(Observe(observations), SERVER)

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` on the writer's thread after each publication."""
        self._writer.listeners = (*self._writer.listeners, listener)

    def next_ids(self, count: int) -> tuple[str, ...]:
        """Fresh decimal ids, never given before. Waits for a commit if fewer than `count` are reserved."""
        taken = self._ids.take(count, unreserved=self._writer.is_current_thread)
        while taken is None:
            self.commit(lambda view: Decided((), None)).result()
            taken = self._ids.take(count)
        return tuple(map(str, taken))

    def skip_ids(self, number: int, most: int | None = None) -> bool:
        """Give no id up to this number from now on, unless that skips more than `most`. Return whether that changes
        anything.

        A server that is killed before its next commit forgets this, and needs the call again.
        """
        return self._ids.skip(number, most)

    @property
    def last_fact_at(self) -> float:
        """The time at which the newest fact was written (Unix seconds); 0 if there is none."""
        newest = self.journal(after=self.position - 1, limit=1) if self.position else ()
        return newest[0].at if newest else 0.0

    def find_job(self, job_id: str) -> Job | None:
        """The job with this id in any phase, None if there is none. A job that has not ended comes from the view."""
        return self.view().jobs.get(job_id) or self._reader.find_job(job_id)

    def find_jobs(self, job_ids: Collection[str]) -> tuple[Job, ...]:
        """The jobs with these ids that exist."""
        return self._reader.find_jobs(job_ids)

    def find_array(self, array_id: str) -> tuple[Job, ...]:
        """The elements of an array in index order."""
        return self._reader.find_array(array_id, self.view().jobs)

    def last_allocation(self, job: Job) -> Allocation | None:
        """The newest allocation of the job, None if it never had one."""
        return self._reader.last_allocation(job.id)

    def last_allocations(self, job_ids: Collection[str]) -> Mapping[str, Allocation]:
        """The newest allocation of each of these jobs."""
        return self._reader.last_allocations(job_ids)

    def jobs(self, query: JobQuery) -> tuple[Job, ...]:
        """Committed jobs, in the order of the query."""
        return self._reader.jobs(query)

    def allocated(self, since: float, until: float) -> tuple[AllocatedTime, ...]:
        """The device time of allocations between two moments (Unix seconds)."""
        return self._held.allocated(since, until)

    def held(
        self,
        since: float,
        until: float,
        *,
        job_id: str | None = None,
        limit: int | None = None,
        unbilled: bool = False,
    ) -> Iterator[HeldAllocation]:
        """The allocations that `allocated` sums; with `unbilled` also the time that counts for nobody."""
        return self._held.held(since, until, job_id, limit, unbilled=unbilled)

    def ended_jobs(self, since: float, until: float, by: KpiBy | None = None) -> Mapping[str | None, EndedJobSums]:
        """Sums over the jobs that ended between two moments (Unix seconds)."""
        return ended_jobs(self.database, since, until, by)

    def journal(
        self, *, job_id: str | None = None, after: int = 0, limit: int | None = None
    ) -> tuple[JournalEntry, ...]:
        """Facts in order, of one job or of all."""
        return self._reader.journal(job_id, after, limit)

    def latest_entries(self, job_id: str, limit: int) -> tuple[JournalEntry, ...]:
        """The newest facts about a job, in order."""
        return self._reader.latest_entries(job_id, limit)

    def close(self) -> None:
        """Finish all accepted operations, then stop."""
        self.tokens.write_uses()
        self._writer.close()
        self.database.close()
