"""What a batch of facts changes on disk: journal rows, and the state they lead to, a statement per table.

A job or cordon is written as the batch leaves it, however many facts it took to get there.
"""

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, bindparam, delete, insert, update
from sqlalchemy.dialects.sqlite import insert as upsert

from corral.ledger import tables
from corral.ledger.rows import Row, allocation_row, cordon_row, environment_of, job_row, job_state
from corral.model.errors import LedgerFailed
from corral.model.fact import (
    AllocationEnded,
    AllocationMade,
    DeviceCordoned,
    DeviceUncordoned,
    Fact,
    JobChanged,
    JobRequeued,
    JobSubmitted,
)
from corral.model.view import View


def write_changes(connection: Connection, facts: Sequence[Fact], entries: Sequence[Row], view: View) -> None:
    """Write `entries`, the journal rows of `facts` in order, and bring the tables to where `view` is."""
    connection.execute(_ADD_ENTRY, entries)
    _write_jobs(connection, facts, entries, view)
    _write_allocations(connection, facts, entries, view)
    _write_cordons(connection, facts)


def move_ceiling(connection: Connection, before: int, after: int) -> None:
    """Record that ids below `after` may have been given, where it said `before`. Raises LedgerFailed where not."""
    if connection.execute(_MOVE_CEILING, {"before": before, "value": after}).rowcount != 1:
        raise LedgerFailed(
            "another server has taken job numbers from this ledger since this one opened it; nothing was written. "
            "Stop one of the two, then restart the other"
        )


def _write_jobs(connection: Connection, facts: Iterable[Fact], entries: Iterable[Row], view: View) -> None:
    environments: dict[str, str] = {}
    whole: dict[str, Row] = {}
    changed: dict[str, Row] = {}
    for fact, entry in zip(facts, entries, strict=True):
        match fact:
            case JobSubmitted(job=job) | JobRequeued(job=job):
                whole[job.id] = job_row(view.jobs[job.id], entry)
                if environment := environment_of(job.spec.env):
                    environments[environment.digest] = environment.text
            case JobChanged(job_id=job_id) if job_id not in whole and job_id not in changed:
                job = view.jobs[job_id]
                changed[job_id] = {"at_sequence": job.sequence, **job_state(job)}
    if environments:
        rows = [{"digest": digest, "variables": text} for digest, text in environments.items()]
        connection.execute(_KEEP_ENVIRONMENT, rows)
    if whole:
        connection.execute(_SET_JOB, list(whole.values()))
    if changed:
        connection.execute(_UPDATE_JOB, list(changed.values()))


def _write_allocations(connection: Connection, facts: Iterable[Fact], entries: Iterable[Row], view: View) -> None:
    made: list[Row] = []
    active: dict[str, Row] = {}
    ended: list[Row] = []
    for fact, entry in zip(facts, entries, strict=True):
        match fact:
            case AllocationMade(allocation=allocation):
                job = view.jobs.get(allocation.job_id)
                active[allocation.id] = allocation_row(allocation, entry["sequence"], None, job)
                made.append(active[allocation.id])
            case AllocationEnded(allocation_id=allocation_id, at=at, lost_from=lost_from) if allocation_id in active:
                active.pop(allocation_id).update(ended_at=at, lost_from=lost_from)
            case AllocationEnded(allocation_id=allocation_id, at=at, lost_from=lost_from):
                ended.append({"of_id": allocation_id, "ended_at": at, "lost_from": lost_from})
    # The ended ones first: one that begins anew under its old id must find it free.
    if ended:
        connection.execute(_END_ALLOCATION, ended)
    if made:
        connection.execute(_ADD_ALLOCATION, made)


def _write_cordons(connection: Connection, facts: Iterable[Fact]) -> None:
    last: dict[str, DeviceCordoned | None] = {}
    for fact in facts:
        match fact:
            case DeviceCordoned(uuid=uuid):
                last[uuid] = fact
            case DeviceUncordoned(uuid=uuid):
                last[uuid] = None
    if last:
        connection.execute(_REMOVE_CORDON, [{"of_uuid": uuid} for uuid in last])
    rows = [cordon_row(fact) for fact in last.values() if fact is not None]
    if rows:
        connection.execute(_ADD_CORDON, rows)


_add_job = upsert(tables.jobs)
_SET_JOB = _add_job.on_conflict_do_update(
    index_elements=["id"], set_={column.name: _add_job.excluded[column.name] for column in tables.jobs.columns}
)
_UPDATE_JOB = update(tables.jobs).where(tables.jobs.c.sequence == bindparam("at_sequence"))
_KEEP_ENVIRONMENT = upsert(tables.environments).on_conflict_do_nothing()
_ADD_ENTRY = insert(tables.journal)
_ADD_ALLOCATION = insert(tables.allocations)
_END_ALLOCATION = update(tables.allocations).where(
    tables.allocations.c.id == bindparam("of_id"), tables.allocations.c.ended_at.is_(None)
)
_ADD_CORDON = insert(tables.cordons)
_REMOVE_CORDON = delete(tables.cordons).where(tables.cordons.c.uuid == bindparam("of_uuid"))
_MOVE_CEILING = update(tables.meta).where(
    tables.meta.c.name == tables.NEXT_ID, tables.meta.c.value == bindparam("before")
)
