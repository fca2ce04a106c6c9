"""Sums over the jobs that ended within a period, computed in the database."""

from sqlalchemy import ColumnElement, Select, Text, and_, case, func, literal, literal_column, select

from corral.core.ledger import tables
from corral.core.ledger.database import Database
from corral.core.model.devices.group_use import EndedJobSums, KpiBy
from corral.core.model.jobs.phase import TERMINAL_PHASES, Phase
from corral.core.model.placing.plan import PARKED

_jobs, _allocations = tables.jobs, tables.allocations
_PHASE: ColumnElement[str] = literal_column("+jobs.phase", Text)
"""The phase of a job. The plus sign keeps SQLite from using the index by phase, with which it would read all jobs that
ever ended.
"""

_COUNTED = [phase.value for phase in TERMINAL_PHASES if phase is not Phase.CANCELLED]
_FAILED = [Phase.FAILED.value, Phase.LOST.value, Phase.TIMED_OUT.value]

_KEYS: dict[KpiBy | None, ColumnElement[str]] = {
    None: literal(""),
    KpiBy.USER: _jobs.c.user,
    KpiBy.PROJECT: func.coalesce(func.json_extract(_jobs.c.spec, "$.project"), "default"),
    KpiBy.QUEUE: tables.QUEUE,
    KpiBy.NODE: func.json_extract(_allocations.c.placement, "$.members[0].node"),
    KpiBy.MEANS: tables.FIRST_DEVICE.concat(" ").concat(tables.FIRST_SHARE),
}


def ended_jobs(
    database: Database, since: float, until: float, by: KpiBy | None = None
) -> dict[str | None, EndedJobSums]:
    """Sums over the jobs that ended from `since` up to `until` (Unix seconds), by user, project, queue, node or means.

    The keys for MEANS are "UUID SHARE_MILLI" of the job's first device. A gang on several nodes counts for the node of
    its first member. The key None is for jobs without a value. Raises LedgerFailed.
    """
    with database.reading() as connection:
        return {key: EndedJobSums._make(sums) for key, *sums in connection.execute(question_of(since, until, by))}


def question_of(
    since: float, until: float, by: KpiBy | None
) -> Select[str, int, int, int, float, int, float, int, float]:
    """The statement that `ended_jobs` runs: it selects the key and the sums of each group."""
    own = _allocations.alias()
    last = select(func.max(own.c.entry)).where(own.c.job_id == _jobs.c.id).correlate(_jobs).scalar_subquery()
    key = _KEYS[by].label("key")
    since_placed = _jobs.c.started_at - _allocations.c.created_at
    placed = and_(_jobs.c.started_at.is_not(None), since_placed >= 0)
    started = _jobs.c.started_at.is_not(None)
    finished = _jobs.c.phase == Phase.SUCCEEDED.value
    return (
        select(
            key,
            func.count(),
            _count(_jobs.c.phase.in_(_FAILED)),
            _count(finished),
            _sum(finished, _jobs.c.ended_at - _jobs.c.submitted_at),
            _count(started),
            _sum(started, _WAITED_S),
            _count(placed),
            _sum(placed, since_placed),
        )
        .select_from(_jobs)
        .join(_allocations, _allocations.c.entry == last, isouter=True)
        .where(_jobs.c.ended_at >= since, _jobs.c.ended_at < until, _PHASE.in_(_COUNTED))
        .group_by(key)
    )


def _count(true: ColumnElement[bool]) -> ColumnElement[int]:
    return func.coalesce(func.sum(case((true, 1), else_=0)), 0)


def _sum(true: ColumnElement[bool], value: ColumnElement[float]) -> ColumnElement[float]:
    return func.coalesce(func.sum(case((true, value), else_=0.0)), 0.0)


# `waited` is a list of pairs of a reason and its seconds.
_WAITED_S: ColumnElement[float] = literal_column(
    "(SELECT coalesce(sum(json_extract(part.value, '$[1]')), 0.0) FROM json_each(jobs.state, '$.waited') AS part "
    f"WHERE json_extract(part.value, '$[0]') NOT IN ({', '.join(repr(reason.value) for reason in sorted(PARKED))}))"
)
