"""When a job with a time limit is told to save its work, and when it is stopped, by a clock that is set by hand."""

import re
import signal
from collections.abc import Callable, Iterator
from ctypes import byref, c_double
from pathlib import Path

import pytest

from corral.core.model.units import format_duration
from tests.host.runtimes.process.supervisor_parts import NativeLog, parts


class Told:
    """A job's escalation, what its processes are told, and what its log is."""

    def __init__(self, path: Path, limit_s: float, notice_s: float = 30.0, spare_s: float = 0.0) -> None:
        """`notice_s` is how long before its end it is signalled, -1 for never."""
        self._set(1000.0)
        self._path = path
        self._log = NativeLog(path, 1 << 20, boot_at=0.0)
        self._of = parts().make_escalation(self._log.pointer, limit_s, notice_s, spare_s)

    def _set(self, now: float) -> None:
        self.now = now
        parts().set_clock(now)

    @property
    def signals(self) -> list[tuple[float, int]]:
        at = c_double()
        found: list[tuple[float, int]] = []
        while signum := parts().signal_told(len(found), byref(at)):
            found.append((round(at.value, 3), signum))
        return found

    @property
    def notes(self) -> list[str]:
        return [line.removeprefix("corral: ") for line in self._path.read_text().splitlines()]

    @property
    def wait_ms(self) -> float:
        """How long until the next step is due, negative when none is."""
        return float(parts().escalation_wait_ms(self._of))

    @property
    def stop_reason(self) -> str:
        return str(parts().stop_reason_of(self._of).decode())

    def limit_to(self, limit_s: float) -> None:
        parts().escalation_limit(self._of, 1000.0, limit_s)

    def stop(self, reason: str) -> None:
        parts().escalation_stop(self._of, reason.encode())

    def until(self, end: float) -> list[tuple[float, int]]:
        """Go on as the supervisor's loop does."""
        while (wait_ms := self.wait_ms) >= 0 and self.now + (wait_ms - 1) / 1000 <= end:
            # The millisecond that it waits longer than it must is taken off.
            self._set(self.now + max(0.0, wait_ms - 1) / 1000 + 1e-6)
            parts().escalation_go_on(self._of, False)
            if self.stop_reason:
                break
        self._set(end)
        return self.signals


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Told]]:
    yield lambda *given, **more: Told(tmp_path / "log", *given, **more)
    parts().set_clock(-1)


@pytest.mark.parametrize(
    ("limit_s", "notice_s", "expected"),
    [
        (100.0, -1.0, [(1100.0, signal.SIGTERM)]),
        (100.0, 30.0, [(1070.0, signal.SIGUSR1), (1100.0, signal.SIGTERM)]),
        (30.0, 30.0, [(1030.0, signal.SIGTERM)]),
        (10.0, 30.0, [(1010.0, signal.SIGTERM)]),
    ],
)
def test_the_notice_lies_within_a_limit_that_is_longer(
    begin: Callable[..., Told], limit_s: float, notice_s: float, expected: list[tuple[float, int]]
) -> None:
    assert begin(limit_s, notice_s).until(1200.0) == expected


def test_a_job_is_told_once_and_stopped_at_its_limit(begin: Callable[..., Told]) -> None:
    told = begin(100.0)
    assert told.until(1200.0) == [(1070.0, signal.SIGUSR1), (1100.0, signal.SIGTERM)]
    notice, stop = told.notes
    assert notice == "SIGUSR1 was sent: the job is stopped at its time limit, in 30 s"
    assert re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", stop) == (
        "its time limit of 1m 40s was reached at TIME: SIGTERM was sent, SIGKILL follows in 10s"
    )
    assert told.stop_reason == "timed_out"


def test_the_log_tells_the_grace_that_the_job_has_and_not_what_its_program_has_beyond_it(
    begin: Callable[..., Told],
) -> None:
    told = begin(100.0, spare_s=5.0)
    told.until(1100.1)
    assert told.notes[-1].endswith("SIGKILL follows in 10s")
    assert told.wait_ms == pytest.approx(14_900, abs=2)


def test_a_limit_that_is_shortened_has_its_notice_at_once_where_it_should_have_been_before(
    begin: Callable[..., Told],
) -> None:
    told = begin(1000.0)
    told.until(1050.0)
    told.limit_to(60.0)
    assert told.until(1200.0) == [(1050.0, signal.SIGUSR1), (1060.0, signal.SIGTERM)]
    assert told.notes[0] == "SIGUSR1 was sent: the job is stopped at its time limit, in 10 s"


def test_a_limit_that_is_lengthened_after_its_notice_has_another(begin: Callable[..., Told]) -> None:
    told = begin(100.0)
    told.until(1080.0)
    told.limit_to(200.0)
    assert told.until(1300.0) == [
        (1070.0, signal.SIGUSR1),
        (1170.0, signal.SIGUSR1),
        (1200.0, signal.SIGTERM),
    ]


def test_a_job_that_is_told_to_stop_gets_no_more_time_from_another_limit(begin: Callable[..., Told]) -> None:
    told = begin(100.0)
    told.stop("cancelled")
    stopped_by = told.wait_ms
    told.limit_to(1000.0)
    assert told.wait_ms == stopped_by


@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.0, 59.0, 60.0, 3600.0, 7260.0, 86_400.0, 90_061.0])
def test_durations_are_written_as_everywhere_else(begin: Callable[..., Told], seconds: float) -> None:
    told = begin(seconds, -1.0)
    told.until(1000.1 + seconds)
    expected = format_duration(seconds) if seconds != 0.5 else "0.5s"
    assert told.notes[-1].startswith(f"its time limit of {expected} was reached at ")
