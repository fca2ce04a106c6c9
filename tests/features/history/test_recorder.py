"""The history over time: what is written, what is found again, and what a broken disk or file does to it."""

import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.core.model.devices.device import CLOCK_REASONS, DeviceSample
from corral.core.model.errors import BackendFailed, NotFound, Refused
from corral.features.history.answers import HistoryPoint
from corral.features.history.asking import HistoryQueries
from corral.features.history.recording.file import Block, HistoryFile
from corral.features.history.recording.levels import DAY_S, MOST_POINTS, choose, kept_levels, points
from corral.features.history.recording.recorder import WRITE_INTERVAL_S, HistoryRecorder
from corral.features.history.recording.series import SERIES, readings_of

T0 = 1_700_000_000.0


@dataclass
class Rig:
    """A recorder whose device `GPU-a` is sampled each second by `run`."""

    path: Path
    clock: ManualClock = field(default_factory=lambda: ManualClock(T0))
    days: int = 7
    samples: dict[str, DeviceSample] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.file = HistoryFile(self.path)
        self.recorder = HistoryRecorder(self.file, lambda: self.samples, self.clock, kept_levels(self.days), 1.0)
        self.queries = HistoryQueries(self.recorder, self.clock)

    def run(self, seconds: int, utilization_pct: int | None = 50) -> None:
        for _ in range(seconds):
            self.clock.advance(1.0)
            self.sample(utilization_pct)
            self.recorder.look()

    def sample(self, utilization_pct: int | None) -> None:
        self.samples["GPU-a"] = DeviceSample(
            "GPU-a", self.clock.now(), utilization_pct=utilization_pct, power_mw=61_500
        )

    def points(self, range_name: str = "30m", series: str = "utilization_pct") -> tuple[HistoryPoint, ...]:
        return self.queries.device("GPU-a", range_name=range_name, series=[series]).series[series]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path / "history.db")
    yield rig
    rig.recorder.close()


def test_what_is_not_written_yet_is_told_too(rig: Rig) -> None:
    rig.run(20, 70)
    assert {(point.min, point.mean, point.max, point.p95) for point in rig.points()} == {(70, 70, 70, 70)}
    assert sum(point.coverage * 2 for point in rig.points()) == pytest.approx(20)
    assert {point.mean for point in rig.points(series="power_w")} == {61.5}


def test_a_restart_in_the_middle_of_an_hour_loses_nothing_that_was_closed(rig: Rig) -> None:
    rig.run(100, 20)
    rig.recorder.close()
    rig.restart()
    rig.run(100, 40)
    for range_name in ("30m", "6h", "24h", "7d"):
        found = rig.queries.device("GPU-a", range_name=range_name, series=["utilization_pct"])
        covered = sum(point.coverage for point in found.series["utilization_pct"]) * found.step_s
        assert covered == pytest.approx(200, abs=found.step_s * 0.01)
    assert {point.mean for point in rig.points("30m")} == {20, 30, 40}


def test_a_gap_has_no_points_and_is_no_zero(rig: Rig) -> None:
    rig.run(10)
    rig.clock.advance(300)
    rig.run(10)
    found = [point.t for point in rig.points()]
    assert max(after - before for before, after in pairwise(found)) >= 300
    assert {point.min for point in rig.points()} == {50}


def test_a_reading_that_could_not_be_had_is_a_gap_of_its_series_alone(rig: Rig) -> None:
    rig.run(10, None)
    assert rig.points() == ()
    assert len(rig.points(series="power_w")) >= 5


def test_a_device_that_is_at_fault_or_gone_keeps_its_history(rig: Rig) -> None:
    rig.run(10)
    rig.samples["GPU-a"] = DeviceSample("GPU-a", rig.clock.now(), fault="lost")
    rig.recorder.look()
    rig.samples.clear()
    rig.recorder.close()
    rig.restart()
    assert len(rig.points()) >= 5


def test_a_clock_that_was_set_back_merges_what_comes_twice(rig: Rig) -> None:
    rig.run(100, 20)
    rig.recorder.write()
    earlier = rig.clock.now()
    rig.clock.advance(-100)
    rig.run(100, 60)
    assert rig.clock.now() == earlier
    assert {(point.min, point.max) for point in rig.points()} == {(20, 60)}
    assert max(point.coverage for point in rig.points()) == 1.0


def test_what_is_sampled_while_it_writes_is_taken_too(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    write = rig.file.write

    def slow(blocks: Sequence[Block], highest_job: int) -> None:
        write(blocks, highest_job)
        rig.clock.advance(1.0)
        rig.sample(70)

    with monkeypatch.context() as patch:
        patch.setattr(rig.file, "write", slow)
        rig.run(int(WRITE_INTERVAL_S))
    rig.clock.advance(1.0)
    rig.sample(50)
    rig.recorder.look()
    assert {point.max for point in rig.points()} == {50, 70}


def test_times_are_of_the_wall_clock(rig: Rig) -> None:
    rig.run(10)
    rig.clock.step(86_400)
    assert rig.points()[0].t >= T0 + 86_400


def test_what_is_past_its_time_is_deleted(rig: Rig) -> None:
    rig.run(70)
    rig.clock.advance(8 * DAY_S)
    rig.run(int(WRITE_INTERVAL_S) + 1)
    steps = {
        row[0] for row in sqlite3.connect(rig.path).execute(f"select step_s from blocks where start < {T0 + DAY_S}")
    }
    assert steps == {3600}


def test_without_retention_the_last_hour_alone_is_kept(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "history.db")
    rig.run(70)
    rig.recorder.close()
    rig.days = 0
    rig.restart()
    rig.run(int(WRITE_INTERVAL_S) + 1)
    assert {row[0] for row in sqlite3.connect(rig.path).execute("select step_s from blocks")} == {1}
    found = rig.queries.device("GPU-a", range_name="7d")
    assert found.to - found.from_ == 3601
    with pytest.raises(Refused, match="kept for 1h"):
        rig.queries.device("GPU-a", start=1, end=2)
    rig.recorder.close()


def test_a_full_disk_is_logged_once_and_what_waited_is_written_later(
    rig: Rig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(rig.file, "write", fail)
        rig.run(200)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    rig.run(int(WRITE_INTERVAL_S))
    assert "is written again" in caplog.text
    assert sum(point.coverage * 2 for point in rig.points()) == pytest.approx(260)


def fail(_blocks: object, _highest_job: int) -> None:
    raise BackendFailed("database or disk is full")


def ruin(path: Path) -> None:
    path.write_bytes(b"this is no database" * 1000)


def cut(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[100:] = b"\xff" * (len(raw) - 100)
    path.write_bytes(raw)


def newer(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize("damage", [ruin, cut, newer])
def test_a_damaged_file_is_moved_away_and_begun_anew(
    rig: Rig, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    rig.run(70)
    rig.recorder.close()
    damage(rig.path)
    rig.restart()
    rig.run(2 * int(WRITE_INTERVAL_S) + 2)
    assert rig.path.with_name("history.db.damaged").exists()
    assert "was moved to" in caplog.text
    assert len(rig.points()) >= 50


def test_a_damaged_file_that_cannot_be_moved_away_stops_the_history_alone(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.run(70)
    rig.recorder.close()
    ruin(rig.path)
    in_the_way = rig.path.with_name("history.db.damaged")
    in_the_way.mkdir()
    rig.restart()
    rig.run(70)
    assert "is not written" in caplog.text
    in_the_way.rmdir()
    rig.run(2 * int(WRITE_INTERVAL_S))
    assert "is written again" in caplog.text


def test_a_file_that_was_deleted_under_the_server_is_begun_anew(rig: Rig) -> None:
    rig.run(70)
    for path in rig.path.parent.iterdir():
        path.unlink()
    rig.run(70)
    assert rig.file.size() > 0


def test_a_block_that_cannot_be_read_costs_that_block_alone(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.run(70)
    rig.recorder.close()
    with sqlite3.connect(rig.path) as connection:
        connection.execute("update blocks set data = x'00' where step_s = 10")
    rig.restart()
    rig.run(70)
    assert "cannot be read" in caplog.text
    assert len(rig.points()) >= 60


def test_a_row_with_something_else_than_bytes_costs_that_block_alone(rig: Rig) -> None:
    rig.run(70)
    rig.recorder.close()
    with sqlite3.connect(rig.path) as connection:
        connection.execute("update blocks set data = 'text' where step_s = 10")
    rig.restart()
    rig.run(70)
    rig.recorder.close()
    assert rig.recorder.stopped is None
    assert len(rig.points()) >= 60


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"range_name": "1w"}, "1h"),
        ({"range_name": "1h", "start": 5}, "not both"),
        ({"start": int(T0) + 5, "end": int(T0)}, "must be before"),
        ({"start": int(T0) + 9999, "end": int(T0) + 99999}, "future"),
        ({"start": 1, "end": 2}, "365d"),
        ({"series": ["power"]}, "power_w"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(rig: Rig, wanted: dict[str, object], words: str) -> None:
    rig.run(2)
    with pytest.raises(Refused, match=words):
        rig.queries.device("GPU-a", **wanted)  # type: ignore[arg-type]


def test_a_device_that_never_was_is_not_found(rig: Rig) -> None:
    with pytest.raises(NotFound):
        rig.queries.device("GPU-z")


@pytest.mark.parametrize("interval_s", [0.1, 1.0, 5.0, 60.0, 3600.0])
@pytest.mark.parametrize("days", [0, 1, 7, 30])
def test_no_range_has_more_points_than_allowed_and_each_level_divides_its_step(days: int, interval_s: float) -> None:
    now = int(T0)
    for span_s in (
        1,
        59,
        1800,
        3600,
        21_600,
        43_200,
        86_400,
        172_800,
        604_800,
        30 * DAY_S,
        365 * DAY_S,
        20_000 * DAY_S,
    ):
        for end in (now, now - 7777):
            level, step_s = choose(kept_levels(days), end - span_s, end, now, interval_s)
            assert points((end - span_s) // step_s * step_s, end, step_s) <= MOST_POINTS
            assert step_s % level.step_s == 0


def test_throttling_is_kept_as_the_part_of_the_time() -> None:
    assert len(readings_of(DeviceSample("a", 0.0))) == len(SERIES)
    idle, hot = CLOCK_REASONS["idle"], CLOCK_REASONS["hw_thermal"]
    assert [readings_of(DeviceSample("a", 0.0, throttle=bits))[-1] for bits in (None, 0, idle, hot)] == [None, 0, 0, 1]
