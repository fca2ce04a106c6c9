"""Reports over HTTP, and by the Python client."""

import time
from dataclasses import replace

import pytest

from corral.cli.tables.memory_trend import memory_trend
from corral.client import Client, JobDetail
from corral.core.model.devices.device import DeviceSample
from corral.core.model.errors import Refused
from corral.core.model.fact import AllocationEnded, AllocationMade, JobChanged, JobSubmitted
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.ports.ledger import Decided
from corral.features.accounting.report_table import waste_lines
from tests.api.world import UUIDS, Served


def test_a_report_tells_what_was_made_of_a_gpu_and_what_it_costs(served: Served) -> None:
    world, begin = served.world, time.time() - 3600
    job = Job("1", 1, JobSpec(user="alice", name="sft"), begin)
    made = Allocation("1.1", "1", "alice", Placement((Member("here", (Grant(UUIDS[0], 1000),)),)), begin)
    world.ledger.commit(
        lambda _: Decided((JobSubmitted(job, at=begin, by="alice"), AllocationMade(made, at=begin, by="test")), None)
    ).result()
    for second in range(10):
        world.samples[UUIDS[0]] = DeviceSample(UUIDS[0], begin + 60 + second, utilization_pct=80, power_mw=360_000)
        world.history.meter.look()
    with Client(world.home.root) as client:
        found = client.report(["job", "model"], since=begin - 1)
        (row,) = found.rows
        assert row.names == {"job": "1", "name": "sft", "model": "Mock GPU"}
        assert found.currency == "EUR"
        assert row.cost == pytest.approx(2.0, abs=0.01)
        assert row.gpu_hours == pytest.approx(1.0, abs=0.01)
        assert row.used_hours == pytest.approx(10 / 3600)
        assert row.energy_kwh == pytest.approx(0.001)
        use = client.jobs.get("1").use
        assert use is not None
        assert use.gpu_hours == pytest.approx(1.0, abs=0.01)
        assert use.currency == "EUR"
        assert client.report("weekday").total.gpu_hours == pytest.approx(1.0, abs=0.01)
        with pytest.raises(Refused, match="did you mean 'project'"):
            client.report(["projects"])
        with pytest.raises(Refused, match="is empty"):
            client.report(since=begin, until=begin - 5)


def test_jobs_that_did_not_use_what_they_had_are_listed_with_what_would_have_done(served: Served) -> None:
    world, end = served.world, time.time() - 5
    begin = end - 900
    job = Job(
        "1", 1, JobSpec(user="alice", name="sft", command=("python", "a b")), begin, phase=Phase.RUNNING, launches=1
    )
    made = Allocation("1.1", "1", "alice", Placement((Member("here", (Grant(UUIDS[0], 1000),)),)), begin)
    world.ledger.commit(
        lambda _: Decided((JobSubmitted(job, at=begin, by="alice"), AllocationMade(made, at=begin, by="t")), None)
    ).result()
    for second in range(900):
        sample = DeviceSample(UUIDS[0], begin + 1 + second, utilization_pct=90, memory_used_mib=2000)
        world.samples[UUIDS[0]] = sample
        world.history.meter.look()
    world.ledger.commit(lambda _: Decided((AllocationEnded("1.1", "1", at=end, by="t"),), None)).result()
    with Client(world.home.root) as client:
        (row,) = client.waste().rows
        table, told, _, command = waste_lines(client.waste())
    assert (row.job, row.devices_used, row.oversized, row.request) == ("1", 1, True, "--gpu-mem 3G")
    assert "2G of 16G" in told
    assert len(table) <= 80
    assert command == "1: corral submit --gpu-mem 3G --name sft -- python 'a b'"


def test_how_the_memory_of_a_job_went_is_read_from_its_own_history(served: Served) -> None:
    world, end = served.world, time.time() - 5
    job = Job("1", 1, JobSpec(user="alice"), end - 60, phase=Phase.RUNNING, launches=1, started_at=end - 60)
    made = Allocation("1.1", "1", "alice", Placement((Member("here", (Grant(UUIDS[0], 1000),)),)), end - 60)
    world.ledger.commit(
        lambda _: Decided((JobSubmitted(job, at=end - 60, by="alice"), AllocationMade(made, at=end - 60, by="t")), None)
    ).result()
    for second in range(60):
        world.samples[UUIDS[0]] = DeviceSample(UUIDS[0], end - 59 + second, memory_used_mib=1024 * (second + 1))
        world.history.recorder.look()
    failed = JobChanged("1", {"phase": Phase.FAILED, "ended_at": end}, at=end, by="t")
    freed = AllocationEnded("1.1", "1", at=end, by="t")
    world.ledger.commit(lambda _: Decided((failed, freed), None)).result()
    detail = JobDetail(id="1", user="alice", phase=Phase.FAILED, started_at=end - 60, ended_at=end)
    with Client(world.home.root) as client:
        bars, numbers = memory_trend(client, detail)
        assert memory_trend(client, replace(detail, id="999")) == []
    assert bars.startswith("▁")
    assert "60G at the end; at most 60G" in numbers
