"""It is noted when what of a log was written: its reader begins there, never too late and little too early."""

import os
import random
from pathlib import Path

import pytest

from corral.runtimes.process import log_marks
from corral.runtimes.process.log_marks import SPACING_S, LogMarks, mark_end, marks_path, written_since


class Written:
    """A log that is written to by a clock that is set by hand."""

    def __init__(self, path: Path, size: int = 0) -> None:
        self.path = str(path)
        self.now = 1_700_000_000.0
        self.quiet_s = 0.0
        self.size = size
        self.writes: list[tuple[float, int]] = []
        self.marks = LogMarks(self.path, size, 0.0, clock=lambda _: self.now)

    def write(self, count: int = 10) -> None:
        """Write, as the supervisor's loop does."""
        self.writes.append((self.now, self.size))
        self.size += count
        self.marks.wrote(self.size)
        self.quiet_s = 0.0

    def wait(self, seconds: float) -> None:
        """Nothing is written for a while; the supervisor's loop has the log rest once that is long enough."""
        self.now += seconds
        self.quiet_s += seconds
        if self.marks.pending and self.quiet_s >= SPACING_S:
            self.marks.rest()

    def since(self, at: float) -> int:
        found = written_since(self.path, at)
        assert found is not None
        return found


@pytest.fixture
def log(tmp_path: Path) -> Written:
    return Written(tmp_path / "1.log")


def test_what_was_written_since_is_found_and_little_more(log: Written) -> None:
    begin = log.now
    for _ in range(100):
        log.write()
        log.wait(1.0)
    log.wait(10.0)
    for ago in range(1, 100):
        first = next(at for at, size in log.writes if size >= log.since(begin + ago))
        assert begin + ago - SPACING_S - 1 <= first <= begin + ago


def test_after_a_pause_what_was_written_before_it_is_not_shown(log: Written) -> None:
    log.write()
    log.wait(3600.0)
    assert log.since(log.now - 60) == log.size
    log.write()
    log.wait(1.0)
    assert log.since(log.now - 60) == log.size - 10


def test_a_job_that_ends_within_seconds_leaves_no_file(log: Written) -> None:
    log.write()
    log.wait(1.0)
    log.marks.close()
    assert not os.path.exists(marks_path(log.path))
    assert written_since(log.path, log.now) is None


def test_of_a_retry_it_is_known_from_its_beginning(tmp_path: Path) -> None:
    again = Written(tmp_path / "1.log", size=500)
    again.write()
    assert again.since(again.now + 0.01) == 500
    again.wait(1.0)
    again.marks.close()
    assert again.since(again.now + 0.01) == 510


def test_a_line_of_the_servers_after_the_end_is_noted_where_there_are_marks(log: Written) -> None:
    mark_end(log.path, log.now, 5)
    assert written_since(log.path, log.now) is None
    log.write()
    log.wait(10.0)
    mark_end(log.path, log.now, log.size + 7)
    assert (log.since(log.now), log.since(log.now + 0.01)) == (log.size, log.size + 7)


def test_a_file_of_marks_is_bounded_and_never_makes_a_reader_miss_anything(
    log: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_marks, "MOST", 32)
    chance = random.Random(1)
    for _ in range(3000):
        log.write(chance.randint(1, 1000))
        log.wait(chance.choice([0.1, 1.0, 7.0, 60.0]))
        assert os.path.getsize(marks_path(log.path)) <= 31 * 33 if os.path.exists(marks_path(log.path)) else True
    for at, size in chance.sample(log.writes, 200):
        assert log.since(at) <= size


@pytest.mark.parametrize(
    "data",
    [b"", b"x" * 1_000_000, b"nan 5\n", b"1 -5\n", b"1\n", b"\xff\xfe 3\n", b"9999999999999999999999 4\n", b"-inf 9\n"],
)
def test_what_a_job_wrote_in_the_place_of_marks_says_at_worst_where_to_begin(log: Written, data: bytes) -> None:
    Path(marks_path(log.path)).write_bytes(data)
    assert log.since(10.0) in (0, 9)


def test_what_a_job_put_in_the_place_of_marks_is_neither_followed_nor_waited_for(log: Written) -> None:
    os.mkfifo(marks_path(log.path))
    log.write()
    log.wait(20.0)
    log.write()
    with pytest.raises(OSError, match="regular"):
        written_since(log.path, log.now)


def test_a_full_disk_stops_nothing(log: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(log_marks, "_append", full)
    for _ in range(5):
        log.write()
        log.wait(10.0)
    assert written_since(log.path, log.now) is None
