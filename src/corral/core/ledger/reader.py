"""Queries on the tables, from any thread, each on one state of the database."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Select, func, or_, select

from corral.core.ledger import tables
from corral.core.ledger.database import Database
from corral.core.ledger.listing import in_order, pages
from corral.core.ledger.table_rows import (
    OF_LAST_ALLOCATION,
    Variables,
    allocation_of,
    digests,
    entry_of,
    job_of,
    last_allocation_of,
    past_run_of,
    variables_of,
)
from corral.core.model.errors import Refused
from corral.core.model.fact import AllocationMade, Fact, JobSubmitted, ServerPart
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, Placement
from corral.core.model.runs.run_history import PastRun
from corral.core.model.slice import LedgerSnapshot
from corral.core.ports.ledger import JobQuery, JournalEntry

ENVIRONMENTS_KEPT = 1_000
"""Environments kept in memory, shared by the jobs read; most jobs of a user have the same one."""

ACTIVE_PHASES = tuple(phase for phase in Phase if not phase.terminal)


@dataclass(frozen=True, slots=True)
class Boot:
    """The state at the start of a server: a snapshot of all that has not ended, the last entry, the least unused id."""

    snapshot: LedgerSnapshot
    last_entry: int
    next_id: int


class Reader:
    """Queries on committed data. Every method may raise LedgerFailed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._environments: dict[str, Variables] = {}

    def find_job(self, job_id: str) -> Job | None:
        """The job with this id, None if there is none."""
        found = self._read_jobs([select(tables.jobs).where(tables.jobs.c.id == job_id)])
        return found[0] if found else None

    def find_jobs(self, job_ids: Collection[str]) -> tuple[Job, ...]:
        """The jobs with these ids that exist, from one state of the database."""
        wanted = list(dict.fromkeys(job_ids))
        chunks = [wanted[start : start + _IDS_A_QUESTION] for start in range(0, len(wanted), _IDS_A_QUESTION)]
        return self._read_jobs([select(tables.jobs).where(tables.jobs.c.id.in_(chunk)) for chunk in chunks])

    def find_array(self, array_id: str, active: Mapping[str, Job]) -> tuple[Job, ...]:
        """The elements of an array, in the order of their index.

        An element in `active` is taken from there if its phase is current: reading jobs takes most of the time.
        """
        table = tables.jobs
        phases = select(table.c.id, table.c.phase).where(table.c.array_id == array_id).order_by(table.c.array_index)
        with self._database.reading() as connection:
            rows = connection.execute(phases).all()
            known = {row.id: active[row.id] for row in rows if row.id in active and active[row.id].phase == row.phase}
            unknown = [row.id for row in rows if row.id not in known]
            chunks = [unknown[start : start + _IDS_A_QUESTION] for start in range(0, len(unknown), _IDS_A_QUESTION)]
            found = self._jobs(connection, [select(table).where(table.c.id.in_(chunk)) for chunk in chunks])
            known.update((job.id, job) for job in found)
        return tuple(known[row.id] for row in rows)

    def last_allocation(self, job_id: str) -> Allocation | None:
        """The newest allocation of a job, None if it never had one."""
        table = tables.allocations
        question = select(table).where(table.c.job_id == job_id).order_by(table.c.entry.desc()).limit(1)
        with self._database.reading() as connection:
            row = connection.execute(question).mappings().first()
        return None if row is None else allocation_of(row)

    def last_allocations(self, job_ids: Collection[str]) -> Mapping[str, Allocation]:
        """The newest allocation of each of these jobs, without its `gpu_info`."""
        table = tables.allocations
        wanted = list(job_ids)
        found: dict[str, Allocation] = {}
        with self._database.reading() as connection:
            for start in range(0, len(wanted), _IDS_A_QUESTION):
                chunk = wanted[start : start + _IDS_A_QUESTION]
                newest = select(func.max(table.c.entry)).where(table.c.job_id.in_(chunk)).group_by(table.c.job_id)
                rows = connection.execute(select(*_OF_LAST_ALLOCATION).where(table.c.entry.in_(newest)))
                found.update((allocation.job_id, allocation) for allocation in map(last_allocation_of, rows))
        return found

    def jobs(self, query: JobQuery) -> tuple[Job, ...]:
        """A page of jobs, newest first or in the order of the query."""
        if query.sort is None:
            return self._read_jobs(pages(query), query.limit)
        with self._database.reading() as connection:
            numbers = connection.scalars(in_order(query)).all()
            chunks = [numbers[start : start + _IDS_A_QUESTION] for start in range(0, len(numbers), _IDS_A_QUESTION)]
            questions = [select(tables.jobs).where(tables.jobs.c.sequence.in_(chunk)) for chunk in chunks]
            found = {job.sequence: job for job in self._jobs(connection, questions)}
        return tuple(found[number] for number in numbers)

    def journal(self, job_id: str | None, after: int, limit: int | None) -> tuple[JournalEntry, ...]:
        """The journal entries with a sequence above `after`, in order; with `job_id` only those of that job."""
        table = tables.journal
        question = select(table).where(table.c.sequence > after).order_by(table.c.sequence).limit(limit)
        if job_id is not None:
            question = question.where(table.c.job_id == job_id)
        with self._database.reading() as connection:
            rows = connection.execute(question).mappings().all()
            environments = self._variables(connection, digests(rows))
        return tuple(entry_of(row, environments) for row in rows)

    def latest_entries(self, job_id: str, limit: int) -> tuple[JournalEntry, ...]:
        """The newest entries about a job, in order."""
        table = tables.journal
        question = select(table).where(table.c.job_id == job_id).order_by(table.c.sequence.desc()).limit(limit)
        with self._database.reading() as connection:
            rows = connection.execute(question).mappings().all()[::-1]
            environments = self._variables(connection, digests(rows))
        return tuple(entry_of(row, environments) for row in rows)

    def facts_between(self, since: float, until: float, *, most_jobs: int) -> tuple[Fact, ...]:
        """All facts, in order, about the jobs that had started and existed between two moments (Unix seconds).

        The environments of the jobs are left out: they are secrets, and the caller does not need them. Raises Refused
        if there are more than `most_jobs` jobs.
        """
        jobs, table = tables.jobs, tables.journal
        there = (
            jobs.c.submitted_at < until,
            or_(jobs.c.phase.in_(ACTIVE_PHASES), jobs.c.ended_at > since),
            jobs.c.phase != Phase.PENDING,
            jobs.c.started_at.is_not(None),
        )
        with self._database.reading() as connection:
            count = connection.scalar(select(func.count()).select_from(jobs).where(*there)) or 0
            if count > most_jobs:
                raise Refused(f"{count:,} jobs were there in this time, {count - most_jobs:,} more than can be taken")
            about = table.c.job_id.in_(select(jobs.c.id).where(*there))
            rows = connection.execute(select(table).where(about).order_by(table.c.sequence)).mappings().all()
            environments = dict.fromkeys(digests(rows), ())
        return tuple(entry_of(row, environments).fact for row in rows)

    def entries(self, connection: Connection) -> Iterator[JournalEntry]:
        """The whole journal in order, read in pieces, as `connection` sees it."""
        table = tables.journal
        question = select(table).order_by(table.c.sequence).limit(_ROWS_AT_ONCE)
        last = 0
        while rows := connection.execute(question.where(table.c.sequence > last)).mappings().all():
            environments = self._variables(connection, digests(rows))
            yield from (entry_of(row, environments) for row in rows)
            last = rows[-1]["sequence"]

    def boot(self, empty: LedgerSnapshot) -> Boot:
        """The state that a server starts with, built upon `empty`."""
        active = select(tables.jobs).where(tables.jobs.c.phase.in_(ACTIVE_PHASES)).order_by(tables.jobs.c.sequence)
        allocated = select(tables.allocations).where(tables.allocations.c.ended_at.is_(None))
        facts: list[Fact] = []
        with self._database.reading() as connection:
            for job in self._jobs(connection, [active]):
                facts.append(JobSubmitted(job, at=job.submitted_at, by=job.spec.user))
            for row in connection.execute(allocated.order_by(tables.allocations.c.entry)).mappings():
                facts.append(AllocationMade(allocation_of(row), at=row["created_at"], by=ServerPart.UNRECORDED))
            facts += [entry_of(row, {}).fact for row in connection.execute(_LATEST_FACTS).mappings()]
            last_entry = connection.scalar(select(func.max(tables.journal.c.sequence))) or 0
            next_id = connection.scalars(select(tables.meta.c.value).where(tables.meta.c.name == tables.NEXT_ID)).one()
            past, given = self._past(connection), self._given(connection)
        found = empty.advance(facts)
        return Boot(replace(found, view=found.view.remembering(past, given)), last_entry, next_id)

    @staticmethod
    def _given(connection: Connection) -> list[Placement]:
        """The last placements that were made, in order. They decide which node and device have the next turn (round
        robin).
        """
        table = tables.allocations
        question = select(table).order_by(table.c.entry.desc()).limit(_PLACEMENTS_REMEMBERED)
        newest = [allocation_of(row).placement for row in connection.execute(question).mappings()]
        return newest[::-1]

    def runs_before(self, at: float) -> list[PastRun]:
        """The last runs that had ended at this moment (Unix seconds), as a server remembered them then."""
        with self._database.reading() as connection:
            return self._past(connection, at)

    @staticmethod
    def _past(connection: Connection, before: float | None = None) -> list[PastRun]:
        """The last runs that have ended, in the order of their ends: the data for fair shares and estimates."""
        jobs, allocations = tables.jobs, tables.allocations
        question = (
            select(
                allocations.c.job_id,
                allocations.c.created_at,
                allocations.c.ended_at,
                allocations.c.unbilled_from,
                allocations.c.placement,
                jobs.c.user,
                jobs.c.name,
                jobs.c.spec,
                jobs.c.phase,
                jobs.c.started_at.label("ran_from"),
                jobs.c.ended_at.label("ran_until"),
            )
            .join(jobs, jobs.c.id == allocations.c.job_id)
            .where(allocations.c.ended_at.is_not(None))
            .order_by(allocations.c.entry.desc())
            .limit(_RUNS_REMEMBERED)
        )
        if before is not None:
            question = question.where(allocations.c.ended_at <= before)
        runs = [past_run_of(row) for row in connection.execute(question).mappings()]
        return sorted(runs, key=lambda run: run.ended_at)

    def _read_jobs(self, questions: Iterable[Select[Any]], limit: int | None = None) -> tuple[Job, ...]:
        with self._database.reading() as connection:
            return self._jobs(connection, questions, limit)

    def _jobs(
        self, connection: Connection, questions: Iterable[Select[Any]], limit: int | None = None
    ) -> tuple[Job, ...]:
        """The jobs of all these statements. With several statements, the newest `limit` jobs, newest first."""
        answers = [connection.execute(question).mappings().all() for question in questions]
        rows = answers[0] if answers else []
        if len(answers) > 1:
            rows = sorted((row for answer in answers for row in answer), key=lambda row: -row["sequence"])[:limit]
        environments = self._variables(connection, digests(rows))
        return tuple(job_of(row, environments) for row in rows)

    def _variables(self, connection: Connection, wanted: Sequence[str]) -> Mapping[str, Variables]:
        """The environments by digest. Those that were read before come from memory."""
        known = self._environments
        found = {digest: known[digest] for digest in wanted if digest in known}
        table = tables.environments
        missing = [digest for digest in wanted if digest not in found]
        for start in range(0, len(missing), _DIGESTS_A_QUESTION):
            chunk = missing[start : start + _DIGESTS_A_QUESTION]
            for digest, text in connection.execute(select(table).where(table.c.digest.in_(chunk))):
                found[digest] = variables_of(text)
        if missing:
            # The mapping is replaced as a whole, because other threads must never see it change.
            self._environments = {**known, **found} if len(known) < ENVIRONMENTS_KEPT else found
        return found


_LATEST_FACTS = (
    select(tables.journal)
    .join(tables.latest_facts, tables.latest_facts.c.entry == tables.journal.c.sequence)
    .order_by(tables.journal.c.sequence)
)
_OF_LAST_ALLOCATION = [tables.allocations.c[name] for name in OF_LAST_ALLOCATION]
_RUNS_REMEMBERED = 10_000
_PLACEMENTS_REMEMBERED = 256
_IDS_A_QUESTION = 500
_DIGESTS_A_QUESTION = 500
_ROWS_AT_ONCE = 1_000
