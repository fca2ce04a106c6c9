"""It is noted when what of a log was written: its reader begins there, never too late and little too early."""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral.host.runtimes.process.output.log_marks import mark_end, marks_path, written_since
from tests.host.runtimes.process.conftest import room_for
from tests.host.runtimes.process.supervisor_parts import SPACING_S, NativeLog, parts


class Written:
    """A log that is written to by a clock that is set by hand."""

    def __init__(self, path: Path, size: int = 0) -> None:
        self.path = str(path)
        self.quiet_s = 0.0
        self.size = size
        self.writes: list[tuple[float, int]] = []
        self._pipe = os.pipe2(os.O_NONBLOCK)
        if size:
            path.write_bytes(bytes(size))
        self._set(1_700_000_000.0)
        self.log = NativeLog(path, 1 << 30, boot_at=0.0)

    def _set(self, now: float) -> None:
        self.now = now
        parts().set_clock(now)

    def write(self, count: int = 10) -> None:
        """Write, as the supervisor's loop does."""
        self.writes.append((self.now, self.size))
        self.size += count
        os.write(self._pipe[1], bytes(count))
        assert self.log.drain(self._pipe[0])
        self.quiet_s = 0.0

    def wait(self, seconds: float) -> None:
        """Nothing is written for a while; the supervisor's loop has the log rest once that is long enough."""
        self._set(self.now + seconds)
        self.quiet_s += seconds
        if 0 <= self.log.rest_s() <= self.quiet_s:
            self.log.rest()

    def close(self) -> None:
        self.log.close()
        for end in self._pipe:
            os.close(end)

    def since(self, at: float) -> int:
        found = written_since(self.path, at)
        assert found is not None
        return found


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[[int], Written]]:
    begun: list[Written] = []

    def begin(size: int) -> Written:
        begun.append(Written(tmp_path / "1.log", size))
        return begun[-1]

    yield begin
    for log in begun:
        log.close()
    parts().set_clock(-1)


@pytest.fixture
def log(begin: Callable[[int], Written]) -> Written:
    return begin(0)


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
    log.log.close()
    assert not os.path.exists(marks_path(log.path))
    assert written_since(log.path, log.now) is None


def test_of_a_retry_it_is_known_from_its_beginning(begin: Callable[[int], Written]) -> None:
    again = begin(500)
    again.write()
    assert again.since(again.now + 0.01) == 500
    again.wait(1.0)
    again.log.close()
    assert again.since(again.now + 0.01) == 510


def test_a_line_of_the_servers_after_the_end_is_noted_where_there_are_marks(log: Written) -> None:
    mark_end(log.path, log.now, 5)
    assert written_since(log.path, log.now) is None
    log.write()
    log.wait(10.0)
    mark_end(log.path, log.now, log.size + 7)
    assert (log.since(log.now), log.since(log.now + 0.01)) == (log.size, log.size + 7)


def test_a_file_of_marks_is_bounded_and_never_makes_a_reader_miss_anything(log: Written) -> None:
    chance = random.Random(1)
    for _ in range(20_000):
        log.write(chance.randint(1, 1000))
        log.wait(chance.choice([0.1, 1.0, 7.0, 60.0]))
        assert os.path.getsize(marks_path(log.path)) <= 31 * 2049 if os.path.exists(marks_path(log.path)) else True
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


def test_marks_that_cannot_be_written_stop_nothing(log: Written) -> None:
    for _ in range(5):
        log.write(2)
        # Enough for the log, and not for a mark.
        with room_for(20):
            log.wait(10.0)
    assert os.path.getsize(log.path) == 10
    Path(marks_path(log.path)).unlink(missing_ok=True)
    assert written_since(log.path, log.now) is None
