"""Facts about tasks and experiments: the journal, the table, the view and a server that starts again agree."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corral.core.ledger.fold import check, fold
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.fact import Fact
from corral.features.feature_list import slices
from corral.features.tuner.experiment_table import ExperimentSums, ExperimentTable
from corral.features.tuner.facts import (
    ExperimentChanged,
    ExperimentCreated,
    ExperimentEnded,
    ExperimentsCleared,
    TaskCreated,
    TaskDeleted,
    TaskStarted,
)
from corral.features.tuner.model.experiment import Experiment, ExperimentStatus
from corral.features.tuner.model.tuning_spec import ServedModel, TuningSpec
from corral.features.tuner.model.tuning_task import TaskStatus, TuningTask
from corral.features.tuner.slice import TunerSlice
from corral.features.tuner.task_bests import BestExperiment, TaskBests
from tests.core.ledger.making import send, url_of, write

WHO: dict[str, Any] = {"at": 5.0, "by": "alice"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-1e9, 1e9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)


def a_task(task_id: str) -> TuningTask:
    return TuningTask(task_id, "alice", TuningSpec("llama", ServedModel("llama-3-8b"), "vllm"), 1.0)


def an_experiment(task_id: str, number: int, **fields: object) -> Experiment:
    made = Experiment(f"{task_id}0{number}", task_id, number, {"tp-size": number}, 2.0)
    return replace(made, **fields)  # type: ignore[arg-type]


@st.composite
def lives(draw: st.DrawFn) -> list[tuple[Fact, ...]]:
    """Operations on two tasks, each a run of facts that may follow those before it."""
    alive: dict[str, Experiment] = {}
    last = {"1": 0, "2": 0}
    known: set[str] = set()
    operations: list[tuple[Fact, ...]] = []
    for _ in range(draw(st.integers(1, 6))):
        facts: list[Fact] = []
        for _ in range(draw(st.integers(1, 5))):
            task_id = draw(st.sampled_from(["1", "2"]))
            if task_id not in known:
                known.add(task_id)
                facts.append(TaskCreated(a_task(task_id), **WHO))
                continue
            what = draw(st.sampled_from(["start", "create", "create", "change", "change", "end", "clear", "delete"]))
            own = sorted(one.id for one in alive.values() if one.task_id == task_id)
            if what == "start":
                facts.append(TaskStarted(replace(a_task(task_id), status=TaskStatus.RUNNING), **WHO))
            elif what == "create":
                last[task_id] += 1
                one = an_experiment(task_id, last[task_id], search_state=draw(st.dictionaries(st.text(), JSON)))
                alive[one.id] = one
                facts.append(ExperimentCreated(one, **WHO))
            elif what in ("change", "end") and own:
                one = alive[draw(st.sampled_from(own))]
                over = what == "end"
                one = replace(
                    one,
                    status=draw(st.sampled_from([one for one in ExperimentStatus if one.over == over])),
                    metrics=draw(st.none() | st.dictionaries(st.text(max_size=3), JSON, max_size=2)),
                    objective_score=draw(st.none() | st.floats(-1e9, 1e9)),
                )
                facts.append((ExperimentEnded if over else ExperimentChanged)(one, **WHO))
                alive[one.id] = one
                if over:
                    del alive[one.id]
            elif what == "clear" and not own:
                last[task_id] = 0
                facts.append(ExperimentsCleared(task_id, **WHO))
            elif what == "delete" and not own:
                last[task_id] = 0
                known.discard(task_id)
                facts.append(TaskDeleted(task_id, **WHO))
        operations.append(tuple(facts))
    return operations


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(lives())
def test_journal_table_and_views_agree_after_any_life(operations: list[tuple[Fact, ...]]) -> None:
    with TemporaryDirectory(prefix="corral-") as home:
        url = url_of(Path(home))
        ledger = open_ledger(url, slices=slices())
        for future in [send(ledger, *facts) for facts in operations]:
            future.result()
        live, folded = (one.of(TunerSlice) for one in (ledger.snapshot(), fold(ledger.journal(), slices())))
        kept = {
            one.id: one
            for task_id in ("1", "2")
            for one in ExperimentTable(ledger.database).of_task(task_id, after=0, limit=100, metrics=True)
        }
        ledger.close()
        reopened = open_ledger(url, slices=slices())
        again = reopened.snapshot().of(TunerSlice)
        reopened.close()
        assert check(url, slices()) == ()
    assert folded == again == live
    assert {key: one for key, one in kept.items() if not one.status.over} == live.experiments


def test_the_best_experiment_has_the_lowest_score_of_those_that_succeeded(ledger: SqlLedger) -> None:
    scores = [(ExperimentStatus.SUCCESS, 3.0), (ExperimentStatus.SUCCESS, -2.0), (ExperimentStatus.SUCCESS, None)]
    scores.append((ExperimentStatus.FAILED, -9.0))
    for number, (status, score) in enumerate(scores, 1):
        write(ledger, ExperimentEnded(an_experiment("1", number, status=status, objective_score=score), **WHO))
    write(ledger, ExperimentCreated(an_experiment("2", 1), **WHO))
    assert ExperimentTable(ledger.database).sums() == {
        "1": ExperimentSums(4, 3),
        "2": ExperimentSums(1, 0),
    }
    assert ExperimentTable(ledger.database).sums("2") == {"2": ExperimentSums(1, 0)}
    bests = TaskBests(ExperimentTable(ledger.database))
    task = a_task("1")
    assert bests.of(task, 3) == BestExperiment("102", -2.0)
    assert bests.of(replace(task, id="2"), 0) is None
    assert [ExperimentTable(ledger.database).last_number(task_id) for task_id in ("1", "2", "3")] == [4, 1, 0]


def test_the_best_combination_has_the_lowest_mean_of_its_measurements_and_is_none_of_several_models_of_gpu(
    ledger: SqlLedger,
) -> None:
    bests, task = TaskBests(ExperimentTable(ledger.database)), a_task("1")
    rows: list[tuple[int, str, float]] = [(1, "A100", 1.0), (2, "A100", 1.2), (1, "A100", 1.6), (3, "T4", 0.5)]
    for number, (batch, model, score) in enumerate(rows, 1):
        known = {"parameters": {"batch": batch}, "gpu_info": {"model": model}, "objective_score": score}
        write(ledger, ExperimentEnded(an_experiment("1", number, status=ExperimentStatus.SUCCESS, **known), **WHO))
        best = bests.of(task, number)
        assert best == [("101", 1.0), ("101", 1.0), ("102", 1.2), None][number - 1]


def test_a_page_of_experiments_comes_without_metrics_unless_they_are_wanted(ledger: SqlLedger) -> None:
    measured = an_experiment("1", 2, status=ExperimentStatus.SUCCESS, metrics={"mean_ttft": 0.1})
    write(ledger, ExperimentCreated(an_experiment("1", 1), **WHO), ExperimentEnded(measured, **WHO))
    store = ExperimentTable(ledger.database)
    assert store.of_task("1", after=1, limit=9, metrics=False) == (replace(measured, metrics=None),)
    assert store.of_task("1", after=1, limit=9, metrics=True) == (measured,)
    assert store.find("102") == measured
    assert store.find("103") is None


def test_a_page_with_large_metrics_ends_early_and_the_next_begins_there(
    ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corral.features.tuner.experiment_table.PAGE_METRICS_BYTES", 250)
    for number, size in enumerate((100, 100, 300, 1), 1):
        ended = an_experiment(
            "1", number, status=ExperimentStatus.SUCCESS, metrics={"": "x" * (size - len('{"": ""}'))}
        )
        write(ledger, ExperimentEnded(ended, **WHO))
    pages, after = [], 0
    while page := ExperimentTable(ledger.database).of_task("1", after=after, limit=3, metrics=True):
        after = page[-1].experiment_id
        pages.append([one.experiment_id for one in page])
    assert pages == [[1, 2], [3], [4]]
    assert len(ExperimentTable(ledger.database).of_task("1", after=0, limit=3, metrics=False)) == 3
