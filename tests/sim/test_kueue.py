"""Kueue's generator against the live loop: what it reads, and that all of it is admitted and ends."""

from pathlib import Path

import pytest

from corral.core.model.errors import Refused
from corral.sim.benchmarks.kueue import read_generator, simulate
from corral.sim.reports.history import History

SMALL = """
cohorts:
  - className: cohort
    count: 2
    queuesSets:
    - className: cq
      count: 2
      nominalQuota: 20
      borrowingLimit: 100
      workloadsSets:
      - {count: 12, creationIntervalMs: 5,  workloads: [{className: small, runtimeMs: 5, priority: 50, request: 1}]}
      - {count: 3, creationIntervalMs: 20,  workloads: [{className: large, runtimeMs: 20, priority: 200, request: 20}]}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "generator.yaml"
    path.write_text(SMALL)
    return path


def test_quotas_are_in_gpus_of_what_the_largest_ask_for(config: Path) -> None:
    generator = read_generator(config)
    assert (generator.units, generator.units_per_gpu) == (80, 20)
    queues = {queue.name: queue for queue in generator.queues}
    first = queues["cohort-0-cq-0"]
    assert (first.parent, first.quota.share_milli, first.quota.borrow_milli) == ("cohort-0", 1000, 5000)
    assert {(one.name, one.units, one.priority) for one in generator.streams} == {("small", 1, 2), ("large", 20, 1)}


def test_every_workload_is_admitted_and_ends(config: Path) -> None:
    history = History()
    report = simulate(read_generator(config), patience_s=60, history=history)
    assert (report["workloads"], report["admitted"], report["ended"]) == (60, 60, 60)
    assert report["admitted_by_class"] == {"large": 12, "small": 48}
    assert set(report["time_to_admission_s"]) == {"large", "small"}
    assert {name: len(waits) for name, waits in history.waits.items()} == {"large": 12, "small": 48}
    assert len(history.runs) == 60


@pytest.mark.parametrize(
    ("line", "changed", "message"),
    [
        ("borrowingLimit: 100", "borrowingLimit: 5", "cohort, cq, large: a request of 30 would wait .* at most 25"),
        ("nominalQuota: 20", "nominalQuota: 12", "cohort, cq, large: a request of 30 would wait .* at most 24"),
        ("request: 1}", "request: 0.5}", "cohort, cq, small: request 0.5 is not a whole number"),
        ("request: 1}", "request: 0}", "cohort, cq, small: request 0 is not a whole number of at least 1"),
        ("count: 12,", "count: ten,", "cohort, cq: count 'ten' is not a whole number of at least 0"),
        ("nominalQuota: 20", "nominalQuota: 20.5", "cohort, cq: nominalQuota 20.5 is not a whole number of at least 0"),
        ("runtimeMs: 5,", "runtimeMs: -5,", "cohort, cq, small: runtimeMs -5 is not a whole number of at least 0"),
        ("  count: 2\n    queuesSets", "  count: 0\n    queuesSets", "it asks for no workload at all"),
    ],
)
def test_a_workload_that_could_never_be_admitted_is_refused_by_name(
    tmp_path: Path, line: str, changed: str, message: str
) -> None:
    path = tmp_path / "generator.yaml"
    path.write_text(SMALL.replace("request: 20}", "request: 30}"))
    assert read_generator(path).units_per_gpu == 30
    path.write_text(path.read_text().replace(line, changed))
    with pytest.raises(Refused, match=message):
        read_generator(path)


@pytest.mark.parametrize("text", ["cohorts: 3", "nothing: here", "- [", "cohorts: [{className: a}]"])
def test_what_is_no_generator_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(Refused, match="not a generator file of Kueue"):
        read_generator(path)
