"""The table of experiments: facts are written to it, and any thread may query it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from sqlalchemy import Connection, case, delete, func, select
from sqlalchemy.dialects.sqlite import insert as upsert

from corral.core.ledger import tables
from corral.core.ledger.database import Database
from corral.core.ledger.table_rows import Row, Stored, damaged
from corral.core.model.errors import Refused
from corral.core.model.fact import Fact
from corral.features.tuner.facts import ExperimentFact, ExperimentsCleared, TaskDeleted
from corral.features.tuner.model.experiment import Experiment, ExperimentStatus
from corral.features.tuner.search.standing import ScoredMeasurement
from corral.wire import from_plain, to_plain

_COLUMNS = ("id", "task_id", "status", "objective_score")
_APART = frozenset({*_COLUMNS, "experiment_id", "metrics"})

_table = tables.experiments

PAGE_METRICS_BYTES = 32 << 20
"""The most bytes of metrics in one answer: a thousand experiments may have a gigabyte."""


class ExperimentRows:
    """The rows that result from the facts of a batch or of a whole journal.

    See `corral.core.ledger.changes.OwnRows`.

    Attributes:
        cleared: ids of tasks whose earlier experiments are deleted.
    """

    table, key = tables.experiments, "id"

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.cleared: dict[str, None] = {}

    def add(self, fact: Fact) -> None:
        """Apply one more fact."""
        match fact:
            case ExperimentFact(experiment=experiment):
                self.rows[experiment.id] = experiment_row(experiment)
            case ExperimentsCleared(task_id=task_id) | TaskDeleted(task_id=task_id):
                self.cleared[task_id] = None
                self.rows = {key: row for key, row in self.rows.items() if row["task_id"] != task_id}

    def write(self, connection: Connection) -> None:
        """Write the result of the facts to the table."""
        if self.cleared:
            connection.execute(delete(_table).where(_table.c.task_id.in_(list(self.cleared))))
        if self.rows:
            connection.execute(_SET_EXPERIMENT, list(self.rows.values()))


@dataclass(frozen=True, slots=True)
class ExperimentSums:
    """The number of a task's experiments and of the successful ones."""

    experiments: int = 0
    succeeded: int = 0


class ExperimentTable:
    """Experiments of tasks, as committed. Safe from any thread. Every method may raise LedgerFailed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, experiment_id: str) -> Experiment | None:
        """Return the experiment with this id, with its metrics; None if there is none."""
        with self._database.reading() as connection:
            row = connection.execute(select(_table).where(_table.c.id == experiment_id)).mappings().first()
        return None if row is None else experiment_of(row)

    def of_task(self, task_id: str, *, after: int, limit: int, metrics: bool) -> tuple[Experiment, ...]:
        """Return experiments of a task with numbers above `after`, in order; without their metrics unless wanted.

        With metrics there may be fewer than `limit`, but never none, before the last: a page is bounded in bytes.
        """
        columns = _table.columns if metrics else [column for column in _table.columns if column.name != "metrics"]
        question = select(*columns).where(_table.c.task_id == task_id, _table.c.number > after)
        with self._database.reading() as connection:
            count = _first_that_fit(connection, task_id, after, limit) if metrics else limit
            rows = connection.execute(question.order_by(_table.c.number).limit(count)).mappings().all()
        return tuple(experiment_of(row) for row in rows)

    def picked(
        self, task_id: str, paths: Sequence[tuple[str, ...]], *, after: int, limit: int
    ) -> Mapping[str, tuple[Any, ...]]:
        """Return the values at these paths of the metrics of `of_task`'s experiments, by id; None for missing ones.

        Experiments without metrics are missing.
        """
        # SQLite extracts them: parsing all metrics of a thousand experiments would take Python a tenth of a second.
        page = select(_table.c.id, _table.c.metrics, _table.c.number).where(
            _table.c.task_id == task_id, _table.c.number > after
        )
        listed = page.order_by(_table.c.number).limit(limit).subquery()
        found = func.json_extract(listed.c.metrics, *("$" + "".join(f'."{key}"' for key in path) for path in paths))
        question = select(listed.c.id, found).where(listed.c.metrics.is_not(None))
        with self._database.reading() as connection:
            return {key: tuple(json.loads(text)) for key, text in connection.execute(question)}

    def last_number(self, task_id: str) -> int:
        """Return the number of the last experiment of a task, 0 if there is none."""
        with self._database.reading() as connection:
            return connection.scalar(select(func.max(_table.c.number)).where(_table.c.task_id == task_id)) or 0

    def sums(self, task_id: str | None = None) -> Mapping[str, ExperimentSums]:
        """Return the sums by task, of one or of all; a task without experiments is missing."""
        succeeded = _table.c.status == ExperimentStatus.SUCCESS.value
        good = func.sum(case((succeeded, 1), else_=0))
        question = select(_table.c.task_id, func.count(), good).group_by(_table.c.task_id)
        if task_id is not None:
            question = question.where(_table.c.task_id == task_id)
        with self._database.reading() as connection:
            return {task: ExperimentSums(count, succeeded) for task, count, succeeded in connection.execute(question)}

    def scored(self, task_id: str) -> Mapping[str, ScoredMeasurement]:
        """Return the measurements with a score of a task's successful experiments, by the id of the experiment."""
        extracted = (func.json_extract(_table.c.body, path) for path in ("$.parameters", "$.gpu_info.model"))
        question = select(_table.c.id, _table.c.number, _table.c.objective_score, *extracted).where(
            _table.c.task_id == task_id,
            _table.c.status == ExperimentStatus.SUCCESS.value,
            _table.c.objective_score.is_not(None),
        )
        with self._database.reading() as connection:
            return {
                one: ScoredMeasurement(number, parameters, score, model if isinstance(model, str) else None)
                for one, number, score, parameters, model in connection.execute(question)
            }


def experiment_row(experiment: Experiment) -> Row:
    """Return the row of an experiment."""
    plain = to_plain(experiment, compact=True)
    return {
        "id": experiment.id,
        "task_id": experiment.task_id,
        "number": experiment.experiment_id,
        "status": experiment.status.value,
        "objective_score": experiment.objective_score,
        "body": json.dumps({name: value for name, value in plain.items() if name not in _APART}),
        "metrics": None if experiment.metrics is None else json.dumps(plain["metrics"]),
    }


def experiment_of(row: Stored) -> Experiment:
    """Return the experiment of a row, without metrics if these were not read. Raises LedgerFailed for a damaged row."""
    try:
        plain = {name: row[name] for name in _COLUMNS} | json.loads(row["body"])
        experiment = from_plain(Experiment, {**plain, "experiment_id": row["number"]})
        metrics = row.get("metrics")
        return experiment if metrics is None else replace(experiment, metrics=json.loads(metrics))
    except (Refused, ValueError, TypeError, KeyError) as error:
        raise damaged(f"experiment {row['id']}", error) from error


_set_experiment = upsert(_table)
_SET_EXPERIMENT = _set_experiment.on_conflict_do_update(
    index_elements=["id"], set_={column.name: _set_experiment.excluded[column.name] for column in _table.columns}
)


def _first_that_fit(connection: Connection, task_id: str, after: int, limit: int) -> int:
    """Return how many experiments above `after` have metrics that fit into one page; at least one, whatever its
    size.
    """
    size = func.coalesce(func.length(_table.c.metrics), 0)
    question = select(size).where(_table.c.task_id == task_id, _table.c.number > after)
    sizes = connection.scalars(question.order_by(_table.c.number).limit(limit)).all()
    fitting = sum(1 for total in accumulate(sizes) if total <= PAGE_METRICS_BYTES)
    return max(1, fitting)
