"""The parts of a server's history share one file, and end with what they have taken written down."""

from collections import Counter
from pathlib import Path

from corral.clock import ManualClock
from corral.config import Settings
from corral.core.model.devices.device import Device, DeviceSample, Node
from corral.core.model.devices.group_use import POOL
from corral.core.model.fact import AllocationMade, JobSubmitted, NodeObserved
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.placing.allocation import Allocation, Grant, Member, Placement
from corral.core.model.view import View
from corral.features.history.recording.file import HistoryFile
from corral.features.history.server_history import ServerHistory

T0 = 1_700_000_000 // 3600 * 3600.0


def site() -> View:
    """One device, which a job has."""
    job = Job("1", 1, JobSpec(user="alice"), T0)
    had = Allocation("1.1", "1", "alice", Placement((Member("n", (Grant("GPU-1", 1000),)),)), T0)
    node = Node("n", (Device("GPU-1", 0, "A100", 80_000),), 8000, 32768)
    return View().advance(
        [NodeObserved(node), JobSubmitted(job, at=T0, by="alice"), AllocationMade(had, at=T0, by="test")]
    )


def test_what_every_part_has_taken_is_there_after_a_restart(tmp_path: Path) -> None:
    clock, view = ManualClock(T0 + 10), site()
    samples = {"GPU-1": DeviceSample("GPU-1", T0 + 10, utilization_pct=70)}

    def history() -> ServerHistory:
        file = HistoryFile(tmp_path / "history.db")
        return ServerHistory(file, lambda: view, lambda: samples, clock, Settings(), failures=Counter())

    first = history()
    for part in (first.recorder, first.meter, first.group_use):
        part.look()
    first.close()
    samples = {}
    second = history()
    assert [point.mean for point in second.queries.device("GPU-1").series["utilization_pct"]] == [70]
    hour = int(T0 // 3600)
    assert [row.allocation_id for rows in second.meter.hours(hour, hour) for row in rows] == ["1.1"]
    assert second.group_use.of_kind(POOL, T0, T0 + 60)[""].utilization_s > 0
    second.close()
