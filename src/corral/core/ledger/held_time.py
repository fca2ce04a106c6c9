"""The device time of allocations: summed, or one by one. Both count the same time of the same allocations.

Time that a fault of the site has cost counts for nobody.
"""

from collections.abc import Collection, Iterator
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, case, func, or_, select

from corral.core.ledger import tables
from corral.core.ledger.database import Database
from corral.core.ledger.table_rows import allocated_time_of, held_allocation_of
from corral.core.model.fact import AllocationEnded, AllocationMade, JobChanged
from corral.core.model.jobs.phase import TERMINAL_PHASES, Phase
from corral.core.model.runs.run_history import AllocatedTime, HeldAllocation

_WASTED = (Phase.FAILED.value, Phase.LOST.value)
_OVER = frozenset(phase.value for phase in TERMINAL_PHASES)
_IDS_A_QUESTION = 500
_ROWS_AT_ONCE = 2_000

_table = tables.allocations
_ended = func.coalesce(_table.c.unbilled_from, _table.c.ended_at)
"""The end of the time that counts; null while the allocation holds its devices."""


class HeldTime:
    """Queries about the time that allocations held devices. Every method may raise LedgerFailed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def allocated(self, since: float, until: float) -> tuple[AllocatedTime, ...]:
        """The device time of allocations between two moments (Unix seconds), summed in the database."""
        created = _table.c.created_at
        begin = case((created < since, since), else_=created)
        end = case((_ended.is_(None), until), (_ended > until, until), else_=_ended)
        lost_from = case((_table.c.lost_from < begin, begin), else_=_table.c.lost_from)
        lost = case((lost_from < end, (end - lost_from) * _table.c.gpu_milli), else_=0.0)
        alike = (_table.c.user, _table.c.project, _table.c.queue, _table.c.mig_profile, _table.c.enforcement)
        question = (
            select(
                *alike,
                func.sum((end - begin) * _table.c.gpu_milli).label("milli_s"),
                func.count().label("allocations"),
                func.sum(lost).label("lost_milli_s"),
            )
            .where(_within(since, until))
            .group_by(*alike)
            .order_by(*alike)
        )
        with self._database.reading() as connection:
            return tuple(allocated_time_of(row) for row in connection.execute(question).mappings())

    def held(
        self,
        since: float,
        until: float,
        job_id: str | None = None,
        limit: int | None = None,
        *,
        unbilled: bool = False,
    ) -> Iterator[HeldAllocation]:
        """The allocations that overlap a period (Unix seconds), oldest first, all from one state of the database.

        With `unbilled` they end when they did, also if a fault of the site has cost their time.
        """
        jobs = tables.jobs
        # An allocation's id contains the number of its launch, and the job has the number of its launches.
        launches = func.coalesce(func.json_extract(jobs.c.state, "$.launches"), 0)
        last = _table.c.id == jobs.c.id + "." + launches
        columns: list[ColumnElement[Any]] = [_table.c[name] for name in _COLUMNS]
        columns.append((_table.c.ended_at if unbilled else _ended).label("counts_until"))
        question = (
            select(*columns, *_OF_JOB, last.label("last"))
            .join(jobs, jobs.c.id == _table.c.job_id)
            .where(_within(since, until, _table.c.ended_at if unbilled else _ended))
            .order_by(_table.c.entry)
            .limit(limit)
        )
        if job_id is not None:
            question = question.where(_table.c.job_id == job_id)
        with self._database.reading() as connection:
            for rows in connection.execute(question).partitions(_ROWS_AT_ONCE):
                # The job itself says how its last attempt ended. For earlier attempts the journal does.
                told = {row.entry: row.phase in _WASTED for row in rows if row.last and row.phase in _OVER}
                failed = _failed(connection, {row.job_id for row in rows if row.entry not in told and row.ended_at})
                over = [(row, told.get(row.entry, row.entry in failed)) for row in rows]
                saved = _saved(connection, {row.job_id for row, is_failed in over if is_failed and row.saves})
                for row, is_failed in over:
                    yield held_allocation_of(row, failed_from=saved.get(row.id, row.created_at) if is_failed else None)


_chosen = func.json_each(_table.c.gpu_info, "$.details").table_valued("value")
_MODELS = select(func.json_group_array(func.json_extract(_chosen.c.value, "$.name"))).scalar_subquery()
_SAVES = or_(
    func.json_extract(tables.jobs.c.spec, "$.checkpoint_signal").is_not(None),
    func.json_extract(tables.jobs.c.spec, "$.checkpoint_dir").is_not(None),
).label("saves")
_NAMESPACE = tables.NAMESPACE.label("namespace")
_OF_JOB = (_MODELS.label("models"), tables.jobs.c.name, tables.jobs.c.phase, _NAMESPACE, _SAVES)
_COLUMNS = (
    "entry", "id", "job_id", "user", "project", "queue", "created_at", "ended_at", "placement", "reserved", "lost_from",
)  # fmt: skip


def _within(since: float, until: float, end: ColumnElement[Any] = _ended) -> ColumnElement[bool]:
    """The condition for allocations with devices that overlap a period. Allocations of no duration are left out."""
    created, freed = _table.c.created_at, _table.c.ended_at
    # The first comparison has an index.
    counts = or_(freed.is_(None), and_(freed > since, end > since, end > created))
    return and_(created < until, counts, _table.c.gpu_milli > 0)


def _saved(connection: Connection, job_ids: Collection[str]) -> dict[str, float]:
    """When the last whole checkpoints of these jobs' allocations were named, by the id of the allocation."""
    journal = tables.journal
    allocation_id, saved_at = (func.json_extract(journal.c.body, f"$.{name}") for name in ("allocation_id", "saved_at"))
    wanted, found = sorted(job_ids), dict[str, float]()
    for start in range(0, len(wanted), _IDS_A_QUESTION):
        question = select(allocation_id, saved_at).where(
            journal.c.job_id.in_(wanted[start : start + _IDS_A_QUESTION]),
            journal.c.fact == AllocationEnded.__name__,
            saved_at.is_not(None),
        )
        for name, at in connection.execute(question):
            found[name] = at
    return found


def _failed(connection: Connection, job_ids: Collection[str]) -> set[int]:
    """The allocations of these jobs that failed or were lost, by the journal sequence of their beginning."""
    journal = tables.journal
    phase = func.json_extract(journal.c.body, "$.changes.phase")
    began = journal.c.fact == AllocationMade.__name__
    failed = and_(journal.c.fact == JobChanged.__name__, phase.in_(_WASTED))
    wanted, found = sorted(job_ids), set[int]()
    for start in range(0, len(wanted), _IDS_A_QUESTION):
        question = select(journal.c.job_id, journal.c.sequence, began).where(
            journal.c.job_id.in_(wanted[start : start + _IDS_A_QUESTION]), or_(began, failed)
        )
        last: dict[str, int] = {}
        for job_id, sequence, is_beginning in connection.execute(
            question.order_by(journal.c.job_id, journal.c.sequence)
        ):
            if is_beginning:
                last[job_id] = sequence
            elif job_id in last:
                found.add(last[job_id])
    return found
