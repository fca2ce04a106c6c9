"""Mock devices live: they follow their file, the clock and the jobs, and nothing else."""

import logging
from concurrent.futures import ThreadPoolExecutor, wait
from importlib.resources import as_file, files
from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.core.model.errors import BackendFailed, Refused
from corral.host.telemetry.mock import MockSource
from corral.host.telemetry.mock_power import MockPower

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


POWERED = "power_limit_w = 400\nmin_power_limit_w = 100\nmax_power_limit_w = 400\npower_w = 380"


def test_a_limit_that_was_set_holds_for_the_readings_and_outlives_the_reader(path: Path, tmp_path: Path) -> None:
    path.write_text(ROW.format(uuid="a", extra=POWERED))
    power = MockPower(path, None, tmp_path / "limits.json")
    source = MockSource(path, ManualClock(), power_limits=power.limits)
    (device,) = source.node().devices
    assert (device.power_limit_mw, device.settable_power_mw) == (400_000, (100_000, 400_000))
    assert power.limit_mw("a") == 400_000
    power.set_limit_mw("a", 250_000)
    again = MockPower(path, None, tmp_path / "limits.json")
    assert again.limit_mw("a") == 250_000
    assert source.node().devices[0].power_limit_mw == 250_000
    assert source.sample()[0].power_mw == 250_000


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (f'{POWERED}\npower_refused = "Insufficient Permissions"', "Insufficient Permissions"),
        (POWERED, "Invalid Argument"),
        ("power_limit_w = 400", "Invalid Argument"),
        (f"{POWERED}\nlost = true", "GPU is lost"),
    ],
)
def test_a_refused_limit_changes_nothing(path: Path, tmp_path: Path, extra: str, words: str) -> None:
    path.write_text(ROW.format(uuid="a", extra=extra))
    power = MockPower(path, None, tmp_path / "limits.json")
    with pytest.raises(BackendFailed, match=words):
        power.set_limit_mw("a", 500_000)
    assert power.limits() == {}


def test_a_file_of_limits_that_makes_no_sense_counts_as_none(path: Path, tmp_path: Path) -> None:
    kept = tmp_path / "limits.json"
    for text in ("", "[1]", "{", '{"a": "b"}'):
        kept.write_text(text)
        assert MockPower(path, None, kept).limits() == {}


def test_an_xid_is_an_error_once_whenever_the_file_gives_another(path: Path) -> None:
    clock = ManualClock(10.0)
    source = MockSource(path, clock)
    told = []
    for number, pid in ((31, 7), (31, 8), (0, 8), (31, 8), (79, 8)):
        path.write_text(ROW.format(uuid="a", extra=f"xid = {number}\nxid_pid = {pid}"))
        told.append([(error.code, error.pid) for error in source.sample()[0].errors])
        assert source.sample()[0].errors == ()
    assert told == [[(31, 7)], [], [], [(31, 8)], [(79, 8)]]


def test_faulty_rows_of_memory_are_what_the_file_says(path: Path) -> None:
    rows = {"a": "remap_pending = true", "b": "remap_failed = true"}
    path.write_text("".join(ROW.format(uuid=uuid, extra=extra) for uuid, extra in rows.items()))
    vitals = [sample.vitals for sample in MockSource(path, ManualClock()).sample()]
    assert [(one.remap_pending, one.remap_failed) for one in vitals if one] == [(True, False), (False, True)]


def test_a_call_about_a_device_that_hangs_returns_when_the_file_says_so_no_more(path: Path) -> None:
    path.write_text(ROW.format(uuid="a", extra="hang = true") + ROW.format(uuid="b", extra=""))
    source = MockSource(path, ManualClock())
    assert source.sample(["b"])[0].fault is None
    with ThreadPoolExecutor() as pool:
        hung = pool.submit(source.sample, ["a"])
        assert not wait([hung], timeout=0.1).done
        path.write_text(ROW.format(uuid="a", extra="hang = false") + ROW.format(uuid="b", extra=""))
        assert hung.result(timeout=60)[0].fault is None
