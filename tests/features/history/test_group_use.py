"""Sums of groups: whole devices by where they are, shares by who holds them, and failures once each."""

import random
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from corral.clock import ManualClock
from corral.core.model.devices.device import Device, DeviceProcess, DeviceSample, Node
from corral.core.model.devices.group_use import POOL, GroupUse
from corral.core.model.devices.means import Means
from corral.core.model.fact import AllocationMade, JobSubmitted, NodeObserved
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.view import View
from corral.features.history.recording.file import HistoryFile
from corral.features.history.recording.group_use import WRITE_INTERVAL_S, GroupUseRecorder, group_use
from corral.features.history.recording.group_use_table import GroupUseTable

T0 = 1_700_000_000 // 3600 * 3600.0
DEVICES = (
    Device("GPU-a", 0, "A100", 80_000, means=Means.MPS),
    Device("GPU-b", 1, "A100", 80_000),
    Device("MIG-1", 2, "A100", 10_000, means=Means.MIG, parent_uuid="GPU-b", slice_milli=143),
)


def site(*held: tuple[str, str, int]) -> View:
    """A node with two GPUs and a slice, of which users hold so much."""
    view = View().advance([NodeObserved(Node("n", DEVICES, 8000, 32768))])
    for number, (user, uuid, milli) in enumerate(held):
        placement = Placement((Member("n", (Grant(uuid, milli),)),))
        job = Job(str(number), number, JobSpec(user=user, project="p", queue="q"), T0)
        made = Allocation(f"{number}.1", str(number), user, placement, T0)
        view = view.advance([JobSubmitted(job, at=T0, by=user), AllocationMade(made, at=T0, by="test")])
    return view


def sample(uuid: str, pct: int | None, mib: int | None = None, *, at: float = T0 + 5, **more: Any) -> DeviceSample:
    return DeviceSample(uuid, at, utilization_pct=pct, memory_used_mib=mib, memory_total_mib=80_000, **more)


def of(view: View, *samples: DeviceSample, covered_s: float = 1.0) -> dict[tuple[str, str], GroupUse]:
    by_uuid = {one.uuid: one for one in samples}
    return group_use(view, by_uuid, dict.fromkeys(by_uuid, covered_s), {})


def test_a_device_counts_where_it_is_and_for_who_holds_it() -> None:
    found = of(site(("alice", "GPU-a", 1000)), sample("GPU-a", 80, 40_000, temperature_c=60, power_mw=300_000))
    whole = GroupUse(1, 80, 1, 50, 1, 60, 1, 300, 1, 1)
    assert found == dict.fromkeys(
        [(POOL, ""), ("node", "n"), ("means", "exclusive"), ("user", "alice"), ("project", "p"), ("queue", "q")], whole
    )


def test_a_device_counts_by_how_it_is_held_whatever_its_setting() -> None:
    for milli, means in ((1000, "exclusive"), (500, "mps")):
        assert ("means", means) in of(site(("alice", "GPU-a", milli)), sample("GPU-a", 80))
    assert ("means", "mps") in of(site(), sample("GPU-a", 0)), "held by nobody"


def test_nobodys_device_is_granted_to_nobody() -> None:
    found = of(site(), sample("GPU-b", 0))
    assert found == dict.fromkeys([(POOL, ""), ("node", "n"), ("means", "timeslice")], GroupUse(1, 0))


def test_a_share_counts_as_that_part_of_a_device_and_its_percentages_are_of_it() -> None:
    processes = (
        DeviceProcess(1, memory_mib=30_000, utilization_pct=40, job_id="0"),
        DeviceProcess(2, memory_mib=10_000, utilization_pct=2, job_id="1"),
    )
    view = site(("alice", "GPU-a", 500), ("bob", "GPU-a", 250))
    found = of(view, sample("GPU-a", 42, 40_000, processes=processes, temperature_c=60), covered_s=4.0)
    alice, bob = found["user", "alice"], found["user", "bob"]
    assert alice == GroupUse(2, 160, 2, 150, granted_s=2, used_s=2)
    assert bob == GroupUse(1, 8, 1, 50, granted_s=1, used_s=0)
    assert found[POOL, ""] == GroupUse(4, 168, 4, 200, 4, 240, granted_s=3, used_s=2)


def test_what_is_used_beyond_a_share_is_no_more_than_all_of_it() -> None:
    found = of(site(("alice", "GPU-a", 500)), sample("GPU-a", 90, 70_000))
    assert found["user", "alice"] == GroupUse(0.5, 50, 0.5, 50, granted_s=0.5, used_s=0.5)


def test_a_slice_is_a_part_of_its_device_and_is_counted_for_its_holder() -> None:
    found = of(site(("alice", "MIG-1", 1000)), sample("GPU-b", 10), sample("MIG-1", 70))
    assert found[POOL, ""].utilization_s == 1
    assert found["user", "alice"] == GroupUse(0.143, 70 * 0.143, granted_s=0.143, used_s=0.143)
    assert found["means", "mig"].granted_s == pytest.approx(0.143)


def test_what_could_not_be_read_counts_nowhere() -> None:
    found = of(site(("alice", "GPU-a", 1000)), sample("GPU-a", None, None))
    assert set(found.values()) == {GroupUse()}


@dataclass
class Rig:
    """A recorder of `GPU-a`, which alice holds."""

    path: Path
    clock: ManualClock = field(default_factory=lambda: ManualClock(T0))
    samples: dict[str, DeviceSample] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.file = HistoryFile(self.path)
        view = site(("alice", "GPU-a", 1000))
        self.recorder = GroupUseRecorder(GroupUseTable(self.file), lambda: view, lambda: self.samples, self.clock, 1.0)

    def run(self, seconds: int, pct: int = 50, **more: Any) -> None:
        for _ in range(seconds):
            self.clock.advance(1.0)
            self.samples["GPU-a"] = sample("GPU-a", pct, at=self.clock.now(), **more)
            self.recorder.look()
            self.recorder.look()

    def told(self, kind: str = POOL, name: str = "", *, first: float = T0, last: float | None = None) -> GroupUse:
        last = self.clock.now() + 1 if last is None else last
        return self.recorder.of_kind(kind, first, last).get(name, GroupUse())


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path / "history.db")
    yield rig
    rig.file.close()


def test_what_waits_and_what_is_written_are_told_once_by_minute_and_by_hour(rig: Rig) -> None:
    rig.run(round(WRITE_INTERVAL_S) + 30, 20)
    for first in (T0, T0 - 3 * 86_400):
        assert rig.told(first=first).utilization_s == 90
        assert rig.told("user", "alice", first=first).utilization_pct_s == 1800
    rig.recorder.close()
    assert rig.told().utilization_s == 90


def test_a_question_is_answered_to_the_minute(rig: Rig) -> None:
    rig.run(300)
    assert rig.told(first=T0 + 60, last=T0 + 180).utilization_s == 120
    assert rig.told(first=T0 + 119, last=T0 + 121).utilization_s == 120


def test_any_stretch_of_time_has_what_was_read_in_it(rig: Rig) -> None:
    draw, read = random.Random(7), dict[int, int]()
    for _ in range(400):
        pct = draw.randrange(101)
        rig.run(1, pct)
        read[int(rig.clock.now())] = pct
        if draw.random() < 0.02:
            rig.clock.advance(draw.randrange(2000))
    for _ in range(30):
        first = T0 + 60 * draw.randrange(100)
        last = first + 60 * draw.randrange(1, 100)
        expected = [pct for at, pct in read.items() if first <= at < last]
        assert (rig.told(first=first, last=last)[:2]) == (len(expected), sum(expected))


def test_each_failure_is_counted_once_and_none_that_was_there_before(rig: Rig) -> None:
    rig.run(3, ecc_errors=2, xid=79)
    assert rig.told().failures == 0
    rig.run(3, ecc_errors=2, xid=31)
    assert rig.told().failures == 0
    rig.run(3, ecc_errors=5, xid=48)
    assert rig.told().failures == 2
    for _ in range(3):
        rig.clock.advance(1.0)
        rig.samples["GPU-a"] = DeviceSample("GPU-a", rig.clock.now(), fault="the device is lost")
        rig.recorder.look()
    rig.run(3, ecc_errors=5, xid=48)
    assert rig.told().failures == 3
    assert rig.told("user", "alice").failures == rig.told("node", "n").failures == 3


def test_a_disk_that_is_full_keeps_what_waits(rig: Rig) -> None:
    rig.path.mkdir()
    rig.run(2 * round(WRITE_INTERVAL_S))
    rig.path.rmdir()
    rig.run(round(WRITE_INTERVAL_S))
    rig.recorder.close()
    assert rig.told().utilization_s == 180


def test_what_is_past_its_time_is_deleted(rig: Rig) -> None:
    rig.run(round(WRITE_INTERVAL_S))
    rig.clock.advance(4 * 86_400)
    rig.run(round(WRITE_INTERVAL_S))
    with sqlite3.connect(rig.path) as connection:
        kept = set(connection.execute(f"SELECT DISTINCT step_s FROM group_use WHERE start < {T0 + 86_400}"))
    assert kept == {(3600,)}
    assert rig.told().utilization_s == 120
