"""Key figures over HTTP, and by the Python client."""

import time
from dataclasses import fields, replace

import pytest

from corral.client import Client
from corral.core.model.devices.device import DeviceSample
from corral.core.model.errors import Refused
from corral.core.model.fact import AllocationEnded, AllocationMade, JobChanged, JobSubmitted
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.job_patch import JobPatch
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.ports.ledger import Decided
from corral.features.history.answers import KpiSet
from corral.features.history.run_commands import group_lines, pool_lines
from tests.api.world import UUIDS, Served

TWELVE = {
    *("gpu_utilization", "memory_utilization", "compute_efficiency", "job_throughput", "job_completion_time"),
    *("queue_wait_time", "resource_allocation_time", "system_response_time", "temperature", "power_consumption"),
    *("error_rates", "hardware_failures"),
}


def job_of_alice(served: Served, begin: float) -> None:
    """A job that was submitted at `begin`, got the first GPU 10 s later, and started 2 s after that."""
    job = Job("1", 1, JobSpec(user="alice", queue="night", project="sft"), begin)
    made = Allocation("1.1", "1", "alice", Placement((Member("here", (Grant(UUIDS[0], 1000),)),)), begin + 10)
    running: JobPatch = {
        "phase": Phase.RUNNING,
        "started_at": begin + 12,
        "waited": (("Resources", 7.0), ("Held", 3.0)),
    }
    served.world.ledger.commit(
        lambda _: Decided(
            (
                JobSubmitted(job, at=begin, by="alice"),
                AllocationMade(made, at=begin + 10, by="test"),
                JobChanged("1", running, at=begin + 12, by="test"),
            ),
            None,
        )
    ).result()


def end_it(served: Served, at: float) -> None:
    ended: JobPatch = {"phase": Phase.SUCCEEDED, "ended_at": at}
    served.world.ledger.commit(
        lambda _: Decided(
            (JobChanged("1", ended, at=at, by="test"), AllocationEnded("1.1", "1", at=at, by="test")), None
        )
    ).result()


def measure(served: Served, begin: float) -> None:
    world = served.world
    for second in range(10):
        at = begin + second
        full = DeviceSample("", at, None, 4096, None, 16384, temperature_c=60, power_mw=300_000)
        for uuid, pct in zip(UUIDS, (80, 0), strict=True):
            world.samples[uuid] = replace(full, uuid=uuid, utilization_pct=pct)
        world.history.group_use.look()


def test_the_twelve_figures_are_of_the_last_day_each_with_unit_and_formula(served: Served) -> None:
    begin = time.time() - 3600
    job_of_alice(served, begin)
    measure(served, begin + 60)
    end_it(served, begin + 1800)
    found = served.call("GET", "/kpis").data
    assert {field.name for field in fields(KpiSet)} == TWELVE
    assert set(found) == {*TWELVE, "from", "to", "by", "rows", "left_out"}
    assert all(set(found[key]) == {"value", "unit", "formula"} and len(found[key]["formula"]) > 20 for key in TWELVE)
    assert found["to"] - found["from"] == 24 * 3600
    values = {key: found[key]["value"] for key in TWELVE}
    assert values.pop("system_response_time") is None
    assert values == {
        "gpu_utilization": pytest.approx(40),
        "memory_utilization": pytest.approx(25),
        "compute_efficiency": pytest.approx(100),
        "temperature": pytest.approx(60),
        "power_consumption": pytest.approx(300),
        "hardware_failures": 0,
        "job_throughput": pytest.approx(1 / 24, abs=0.001),
        "job_completion_time": pytest.approx(1800),
        "queue_wait_time": pytest.approx(7),
        "resource_allocation_time": pytest.approx(2),
        "error_rates": 0,
    }
    assert served.call("GET", "/kpis").data["system_response_time"]["value"] > 0


@pytest.mark.parametrize(
    ("by", "name", "utilization"),
    [
        ("user", "alice", 80),
        ("project", "sft", 80),
        ("queue", "night", 80),
        ("node", "here", 40),
        # Whoever has a GPU whole has it alone; the other one nobody has.
        ("means", "exclusive", 80),
    ],
)
def test_there_is_a_row_for_each_of_what_they_are_asked_for_by(
    served: Served, by: str, name: str, utilization: float
) -> None:
    begin = time.time() - 3600
    job_of_alice(served, begin)
    measure(served, begin + 60)
    end_it(served, begin + 1800)
    with Client(served.world.home.root) as client:
        row, *others = client.kpis("2d", by=by).rows
    assert row.name == name
    assert [one.name for one in others] == (["timeslice"] if by == "means" else [])
    assert row.gpu_utilization.value == pytest.approx(utilization)
    assert row.compute_efficiency.value == pytest.approx(100)
    assert row.job_completion_time.value == pytest.approx(1800)
    assert row.system_response_time.value is None


def test_what_was_not_measured_is_none_and_shown_so(served: Served) -> None:
    with Client(served.world.home.root) as client:
        found = client.kpis(since=time.time() - 100, by="user")
    measured = {field.name for field in fields(KpiSet) if getattr(found, field.name).value is not None}
    assert measured <= {"job_throughput", "system_response_time"}
    assert found.job_throughput.value == 0
    assert [line.split()[1] for line in pool_lines(found)][2] == "-"
    assert list(group_lines(found))[-1].split()[:4] == ["pool", "-", "-", "-"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("by=users", "user"),
        ("range=1w", "24h"),
        ("range=1h&from=5", "not both"),
        ("from=20&to=10", "must be before"),
        ("from=1&to=2", "366d"),
    ],
)
def test_what_makes_no_sense_is_refused(served: Served, query: str, words: str) -> None:
    answer = served.call("GET", f"/kpis?{query}")
    assert answer.status == 422
    assert words in str(answer.data)


def test_the_client_refuses_what_is_no_time(served: Served) -> None:
    with Client(served.world.home.root) as client, pytest.raises(Refused, match="since"):
        client.kpis(since="yesterday")  # type: ignore[arg-type]
