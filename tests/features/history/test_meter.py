"""What is made of granted devices, measured: never more than was seen, and nothing twice."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.clock import ManualClock
from corral.core.model.devices.device import DeviceProcess, DeviceSample
from corral.core.model.fact import AllocationMade, JobSubmitted
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.runs.run_history import MeteredHour
from corral.core.model.view import View
from corral.features.history.recording.file import HistoryFile
from corral.features.history.recording.meter import KEPT_HOURS, WRITE_INTERVAL_S, Meter
from corral.features.history.recording.meter_table import MeterTable

T0 = 472_222 * 3600.0 + 1800


def holding(*held: tuple[str, int], at: float = T0) -> View:
    """Jobs that hold so much of GPU-a."""
    view = View()
    for number, (job_id, milli) in enumerate(held):
        placement = Placement((Member("n", (Grant("GPU-a", milli),)),))
        allocation = Allocation(f"{job_id}.1", job_id, "alice", placement, at)
        job = Job(job_id, number, JobSpec(user="alice"), at)
        facts = JobSubmitted(job, at=at, by="alice"), AllocationMade(allocation, at=at, by="test")
        view = view.advance(facts)
    return view


@dataclass
class Rig:
    """A meter whose device `GPU-a` draws 500 W, and is sampled each second by `run`."""

    path: Path
    view: View = field(default_factory=lambda: holding(("7", 1000)))
    clock: ManualClock = field(default_factory=lambda: ManualClock(T0))
    samples: dict[str, DeviceSample] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.file = HistoryFile(self.path)
        self.meter = Meter(MeterTable(self.file), lambda: self.view, lambda: self.samples, self.clock, 1.0)

    def run(self, seconds: int, pct: int | None = 50, *, memory: int | None = 1000, **fields: object) -> None:
        for _ in range(seconds):
            self.clock.advance(1.0)
            sample = DeviceSample("GPU-a", self.clock.now(), utilization_pct=pct, memory_used_mib=memory)
            self.samples["GPU-a"] = sample.__class__(
                **{**{name: getattr(sample, name) for name in sample.__slots__}, "power_mw": 500_000, **fields}
            )
            self.meter.look()
            self.meter.look()

    def hours(self) -> list[MeteredHour]:
        return [row for batch in self.meter.hours(0, 10**6) for row in batch]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path / "history.db")
    yield rig
    rig.file.close()


def test_a_damaged_row_is_as_one_that_was_never_written(rig: Rig) -> None:
    rig.run(5)
    rig.meter.write()
    (whole,) = rig.hours()
    with sqlite3.connect(rig.path) as connection:
        for hour, column, value in ((1, "used_ms", "x"), (2, "idle_ms", 1.5), (3, "energy_mj", b"x")):
            row = {**whole._asdict(), "hour": hour, column: value}
            connection.execute("insert into metered values (?, ?, ?, ?, ?, ?, ?)", list(row.values()))
    assert rig.hours() == [whole]


def test_time_is_used_or_idle_by_utilization_and_neither_where_it_was_not_read(rig: Rig) -> None:
    rig.run(10, 5)
    rig.run(20, 4)
    rig.run(30, None, memory=None)
    (row,) = rig.hours()
    assert row == MeteredHour(472_222, "7.1", "GPU-a", 10_000, 20_000, 60 * 500_000, 1000)


def test_what_waits_and_what_is_written_are_told_once(rig: Rig) -> None:
    rig.run(round(WRITE_INTERVAL_S) + 15)
    assert [row.used_ms for row in rig.hours()] == [75_000]
    rig.meter.close()
    rig.restart()
    rig.run(5, memory=3000)
    (row,) = rig.hours()
    assert (row.used_ms, row.energy_mj, row.memory_most_mib) == (80_000, 80 * 500_000, 3000)
    assert list(chain(*rig.meter.hours_of(["7.1"], 472_000, 472_300))) == [row]
    assert list(chain(*rig.meter.hours_of(["8.1"], 472_000, 472_300))) == []


def test_an_hour_ends_to_the_millisecond(rig: Rig) -> None:
    rig.clock.advance(1799.25)
    rig.run(3)
    assert [(row.hour, row.used_ms) for row in rig.hours()] == [(472_222, 750), (472_223, 2_250)]


def test_a_gap_and_a_clock_that_was_set_back_are_not_time_that_was_used(rig: Rig) -> None:
    rig.run(10)
    rig.clock.advance(100)
    rig.run(1)
    rig.clock.advance(-50)
    rig.run(1)
    assert sum(row.used_ms for row in rig.hours()) == 12_000


def test_time_before_the_device_was_held_is_not_its_holders(rig: Rig) -> None:
    rig.view = View()
    rig.run(2)
    rig.view = holding(("7", 1000), at=rig.clock.now() + 0.4)
    rig.run(1)
    assert [row.used_ms for row in rig.hours()] == [600]


def test_a_shared_devices_power_is_parted_by_use_where_it_is_known(rig: Rig) -> None:
    rig.view = holding(("7", 500), ("8", 250))
    processes = tuple(
        DeviceProcess(number, 100, user="alice", job_id=job, utilization_pct=pct)
        for number, (job, pct) in enumerate((("7", 20), ("8", 60)))
    )
    rig.run(1, 80, processes=processes)
    assert {row.allocation_id: row.energy_mj for row in rig.hours()} == {"7.1": 125_000, "8.1": 375_000}


def test_a_shared_device_that_nobody_uses_costs_its_holders_their_shares(rig: Rig) -> None:
    rig.view = holding(("7", 500), ("8", 250))
    rig.run(3, 0, processes=())
    energy = {row.allocation_id: row.energy_mj for row in rig.hours()}
    assert energy == {"7.1": pytest.approx(1_000_000, abs=3), "8.1": pytest.approx(500_000, abs=3)}
    assert {row.idle_ms for row in rig.hours()} == {3000}


def test_of_a_shared_device_whose_users_are_not_known_nothing_is_metered_but_its_power(rig: Rig) -> None:
    rig.view = holding(("7", 500), ("8", 500))
    rig.run(2, 80, processes=None)
    assert {(row.used_ms, row.idle_ms, row.energy_mj) for row in rig.hours()} == {(0, 0, 500_000)}


def test_a_device_at_fault_is_not_metered(rig: Rig) -> None:
    rig.run(5, fault="lost")
    assert rig.hours() == []


def test_a_lost_file_loses_what_was_in_it_and_no_more(rig: Rig) -> None:
    rig.run(10)
    rig.meter.write()
    for path in rig.path.parent.iterdir():
        path.unlink()
    assert rig.hours() == []
    rig.run(5)
    rig.meter.write()
    assert [row.used_ms for row in rig.hours()] == [5_000]


def test_what_a_full_disk_did_not_take_is_written_later(rig: Rig) -> None:
    rig.run(10)
    rig.meter.write()
    blocked = rig.path.with_name("history.db-aside")
    rig.path.rename(blocked)
    rig.path.mkdir()
    rig.run(10)
    rig.meter.write()
    rig.path.rmdir()
    blocked.rename(rig.path)
    rig.meter.write()
    assert [row.used_ms for row in rig.hours()] == [20_000]


def test_measures_are_kept_for_a_year(rig: Rig) -> None:
    rig.run(10)
    rig.meter.write()
    rig.clock.advance((KEPT_HOURS + 1) * 3600)
    rig.meter.write()
    assert rig.hours() == []


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 5), st.sampled_from([None, 0, 100]), st.booleans()), min_size=1, max_size=30))
def test_no_more_is_metered_than_time_has_passed(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int | None, bool]]
) -> None:
    """Whatever clock, samples and restarts do: each reading stands for a second at most, two where one was missed."""
    rig = Rig(tmp_path_factory.mktemp("meter") / "history.db")
    for jump, pct, restarts in steps:
        rig.clock.advance(jump)
        rig.run(1, pct)
        if restarts:
            rig.meter.close()
            rig.restart()
    rows = rig.hours()
    rig.file.close()
    assert sum(row.used_ms + row.idle_ms for row in rows) <= 2000 * len(steps)
    assert all(row.used_ms + row.idle_ms <= 3_600_000 for row in rows)
