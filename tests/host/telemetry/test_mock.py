"""Mock devices live: they follow their file, the clock and the jobs, and nothing else."""

import logging
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.core.model.errors import Refused
from corral.host.telemetry.mock import MockSource

ROW = '[[devices]]\nmother_uuid = "{uuid}"\nmodel_name = "GPU"\nmemory_size = "8G"\n{extra}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "mock.toml"
    path.write_text(ROW.format(uuid="a", extra=""))
    return path


def test_the_file_is_read_again_when_it_changes(path: Path) -> None:
    source = MockSource(path, ManualClock())
    path.write_text(ROW.format(uuid="a", extra="utilization_pct = 70") + ROW.format(uuid="b", extra=""))
    assert [device.uuid for device in source.node().devices] == ["a", "b"]
    assert source.sample()[0].utilization_pct == 70


def test_a_bad_edit_keeps_the_devices_and_is_logged_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = MockSource(path, ManualClock())
    path.write_text("devices = [")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert [sample.uuid for sample in source.sample()] == ["a"]
    assert len(caplog.records) == 1
    assert "not TOML" in caplog.text


def test_a_deleted_file_keeps_the_devices(path: Path) -> None:
    source = MockSource(path, ManualClock())
    path.unlink()
    assert [device.uuid for device in source.node().devices] == ["a"]


def test_a_file_that_is_bad_from_the_start_is_refused(path: Path) -> None:
    path.write_text("devices = [")
    with pytest.raises(Refused):
        MockSource(path, ManualClock())


def test_a_random_load_depends_on_the_time_alone_and_moves_with_it(path: Path) -> None:
    path.write_text(ROW.format(uuid="a", extra='load = "random"'))
    clock = ManualClock(1_000.0)
    readings = []
    for _ in range(20):
        assert MockSource(path, clock).sample() == MockSource(path, clock).sample()
        readings.append(MockSource(path, clock).sample()[0].utilization_pct)
        clock.advance(10)
    assert len(set(readings)) > 10
    assert all(value is not None and 0 <= value <= 100 for value in readings)


def test_a_device_that_follows_jobs_is_busy_as_far_as_jobs_hold_it(path: Path) -> None:
    path.write_text("".join(ROW.format(uuid=uuid, extra='load = "follow-jobs"') for uuid in "abc"))
    held = {"a": 1000, "b": 500}
    whole, half, none = MockSource(path, ManualClock(), allocated=lambda: held).sample()
    assert whole.utilization_pct is not None
    assert half.utilization_pct is not None
    assert whole.memory_used_mib is not None
    assert half.memory_used_mib is not None
    assert whole.utilization_pct >= 85
    assert 40 <= half.utilization_pct <= 50
    assert whole.memory_used_mib > half.memory_used_mib > 0
    assert (none.utilization_pct, none.memory_used_mib) == (0, 0)


def test_the_built_in_box_is_readable_and_fully_linked() -> None:
    with as_file(files("corral.host.telemetry") / "data" / "mock-8gpu.toml") as path:
        node = MockSource(path, ManualClock()).node()
    assert len(node.devices) == 8
    assert all(len(device.links) == 7 for device in node.devices)
    assert {device.memory_mib for device in node.devices} == {81920}


def test_clocks_xid_and_throttling_are_what_the_file_says(path: Path) -> None:
    extra = 'sm_clock_mhz = 900\nxid = 79\nthrottle = ["hw_thermal"]\nunreadable = ["mem_clock_mhz"]'
    path.write_text(ROW.format(uuid="a", extra=extra))
    (sample,) = MockSource(path, ManualClock()).sample()
    assert (sample.sm_clock_mhz, sample.mem_clock_mhz, sample.xid, sample.throttle) == (900, None, 79, 0x40)
    assert sample.memory_bandwidth_pct == 0


def test_an_unknown_reason_for_throttling_is_refused_with_the_nearest(path: Path) -> None:
    path.write_text(ROW.format(uuid="a", extra='throttle = ["hw_termal"]'))
    with pytest.raises(Refused, match="hw_thermal"):
        MockSource(path, ManualClock())
