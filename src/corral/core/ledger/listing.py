"""Statements on the table of jobs: which jobs match, and in which order."""

import json
from itertools import product
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, literal_column, or_, select

from corral.core.ledger import tables
from corral.core.ledger.table_rows import stored_text
from corral.core.model.devices.means import Means
from corral.core.model.jobs.job import DEFAULT_PRIORITY
from corral.core.model.jobs.name_pattern import as_glob, name_patterns
from corral.core.model.jobs.phase import Phase
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.ports.ledger import HeldBy, JobQuery

MOST_QUESTIONS = 64
"""The most statements for one page. With more users and phases, one statement asks for all of them."""

_JOBS = tables.jobs
_PROJECT: ColumnElement[str] = func.coalesce(func.json_extract(_JOBS.c.spec, "$.project"), "default")


def pages(query: JobQuery) -> list[Select[Any]]:
    """The statements whose results, merged, are the page, newest first.

    With a limit there is one statement per phase and user. An index returns the rows of each in the right order. So the
    cost of a page does not depend on the number of other jobs.
    """
    question = _matching(select(_JOBS), query).order_by(_JOBS.c.sequence.desc()).limit(query.limit)
    users = [stored_text(user) for user in query.users]
    phases = query.phases or (tuple(Phase) if users else ())
    pairs = list(product(users or [None], phases or [None]))
    if query.limit is not None and phases and len(pairs) <= MOST_QUESTIONS:
        return [_narrowed(question, [user] if user else [], [phase] if phase else []) for user, phase in pairs]
    return [_narrowed(question, users, query.phases)]


def in_order(query: JobQuery) -> Select[Any]:
    """The statement for the sequence numbers of the jobs that match, in the order that the query asks for."""
    assert query.sort is not None
    value = _value_of(query.sort.key, query.now)
    order = value.desc() if query.sort.descending else value.asc()
    question = _narrowed(
        _matching(select(_JOBS.c.sequence), query), [stored_text(user) for user in query.users], query.phases
    )
    return question.order_by(value.is_(None), order, _JOBS.c.sequence.desc()).limit(query.limit)


def _matching(question: Select[Any], query: JobQuery) -> Select[Any]:
    """The statement with all conditions of a query except its users and phases."""
    if query.name is not None:
        question = question.where(or_(*(_named(pattern) for pattern in name_patterns(query.name))))
    if query.array_id is not None:
        question = question.where(_JOBS.c.array_id == stored_text(query.array_id))
    if query.queues:
        question = question.where(tables.QUEUE.in_([stored_text(queue) for queue in query.queues]))
    if query.projects:
        question = question.where(_PROJECT.in_([stored_text(project) for project in query.projects]))
    if query.namespaces:
        question = question.where(tables.NAMESPACE.in_([stored_text(namespace) for namespace in query.namespaces]))
    if query.held is not None:
        question = question.where(_held(query.held))
    if query.since is not None:
        # Later jobs have higher numbers, unless the clock was set back. So both conditions are needed.
        first = select(func.min(_JOBS.c.sequence)).where(_JOBS.c.submitted_at >= query.since).scalar_subquery()
        question = question.where(_JOBS.c.sequence >= first, _JOBS.c.submitted_at >= query.since)
    if query.before_sequence is not None:
        question = question.where(_JOBS.c.sequence < query.before_sequence)
    return question


def _held(held: HeldBy) -> ColumnElement[bool]:
    """The condition that a job's last allocation holds its first device in this way."""
    own, last = tables.allocations, tables.allocations.alias()
    newest = select(func.max(last.c.entry)).where(last.c.job_id == _JOBS.c.id).correlate(_JOBS).scalar_subquery()
    whole = and_(tables.FIRST_SHARE == MILLI_PER_DEVICE, ~_first_is_of(held.parts))
    so_held = whole if held.means is Means.EXCLUSIVE else and_(~whole, _first_is_of(held.devices))
    return select(own.c.entry).where(own.c.entry == newest, so_held).correlate(_JOBS).exists()


def _first_is_of(devices: frozenset[str]) -> ColumnElement[bool]:
    # The list is one parameter, however many devices it has.
    listed: Select[Any] = select(literal_column("value")).select_from(func.json_each(json.dumps(sorted(devices))))
    return tables.FIRST_DEVICE.in_(listed)


def _narrowed(question: Select[Any], users: Any, phases: Any) -> Select[Any]:
    for column, values in ((_JOBS.c.user, users), (_JOBS.c.phase, [phase.value for phase in phases])):
        if len(values) == 1:
            question = question.where(column == values[0])
        elif values:
            question = question.where(column.in_(values))
    return question


def _named(pattern: str) -> ColumnElement[bool]:
    exact, glob = _JOBS.c.name == stored_text(pattern), as_glob(pattern)
    return exact if glob is None else or_(exact, _JOBS.c.name.op("GLOB", is_comparison=True)(stored_text(glob)))


def _value_of(key: str, now: float) -> ColumnElement[Any]:
    """The value that jobs are sorted by, the same that `corral.core.model.jobs.job_sort` computes from a row."""
    return {
        "id": _JOBS.c.sequence,
        "name": _JOBS.c.name,
        "user": _JOBS.c.user,
        "state": _JOBS.c.phase,
        "queue": tables.QUEUE,
        "project": _PROJECT,
        "priority": func.coalesce(func.json_extract(_JOBS.c.spec, "$.priority"), DEFAULT_PRIORITY),
        "submitted": _JOBS.c.submitted_at,
        "started": _JOBS.c.started_at,
        "ended": _JOBS.c.ended_at,
        "time": func.coalesce(_JOBS.c.ended_at, now) - _JOBS.c.started_at,
        "attempts": func.coalesce(func.json_extract(_JOBS.c.state, "$.attempts"), 0),
        "exit": _JOBS.c.exit_code,
    }[key]
