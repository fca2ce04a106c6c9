import os
import re
import signal

import pytest

from corral.model.units import format_duration
from corral.runtimes.process import escalation
from corral.runtimes.process.escalation import Escalation
from corral.runtimes.process.supervisor_orders import Orders
from corral.runtimes.process.time_limit import TimeLimit, in_words, time_limit


@pytest.mark.parametrize(
    ("limit_s", "notice_s", "expected"),
    [
        (100.0, None, TimeLimit(None, 1100.0, 100.0)),
        (100.0, 30.0, TimeLimit(1070.0, 1100.0, 100.0)),
        (30.0, 30.0, TimeLimit(None, 1030.0, 30.0)),
        (10.0, 30.0, TimeLimit(None, 1010.0, 10.0)),
    ],
)
def test_the_notice_lies_within_a_limit_that_is_longer(
    limit_s: float, notice_s: float | None, expected: TimeLimit
) -> None:
    assert time_limit(1000.0, limit_s, notice_s) == expected


class Told:
    """A job's escalation by a clock that is set by hand, and what its processes are told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, limit_s: float | None, spare_s: float = 0.0) -> None:
        self.now = 1000.0
        self.signals: list[tuple[float, int]] = []
        self.notes: list[str] = []
        monkeypatch.setattr(escalation, "uptime_s", lambda: self.now)
        monkeypatch.setattr(escalation, "tell_descendants", self._told)
        monkeypatch.setattr(escalation, "terminate_descendants", lambda pid: self._told(pid, signal.SIGTERM))
        orders = Orders(
            *("1.1", "", "", -1, -1, limit_s, 10.0, 0, [], None, [], None),
            checkpoint_signal=int(signal.SIGUSR1),
            checkpoint_grace_s=30.0,
            spare_s=spare_s,
        )
        self.of = Escalation(orders, self.notes.append)
        self.of.started(self.now, os.getpid())

    def _told(self, pid: int, number: int) -> None:
        assert pid == os.getpid()
        self.signals.append((self.now, number))

    def until(self, end: float) -> list[tuple[float, int]]:
        """Go on as the supervisor's loop does."""
        while (wait_ms := self.of.wait_ms()) is not None and self.now + (wait_ms - 1) / 1000 <= end:
            self.now += max(0.0, wait_ms - 1) / 1000
            self.of.go_on(main_ended=False)
            if self.of.stop_reason is not None:
                break
        self.now = end
        return self.signals


def test_a_job_is_told_once_and_stopped_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(monkeypatch, 100.0)
    assert told.until(1200.0) == [(1070.0, signal.SIGUSR1), (1100.0, signal.SIGTERM)]
    notice, stop = told.notes
    assert notice == "SIGUSR1 was sent: the job is stopped at its time limit, in 30 s"
    assert re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", stop) == (
        "its time limit of 1m 40s was reached at TIME: SIGTERM was sent, SIGKILL follows in 10s"
    )
    assert told.of.stop_reason == "timed_out"


def test_the_log_tells_the_grace_that_the_job_has_and_not_what_its_program_has_beyond_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = Told(monkeypatch, 100.0, spare_s=5.0)
    told.until(1100.0)
    assert told.notes[-1].endswith("SIGKILL follows in 10s")
    assert told.of.wait_ms() == pytest.approx(15_000, abs=2)


def test_a_limit_that_is_shortened_has_its_notice_at_once_where_it_should_have_been_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = Told(monkeypatch, 1000.0)
    told.until(1050.0)
    told.of.limit_to(1000.0, 60.0)
    assert told.until(1200.0) == [(1050.0, signal.SIGUSR1), (1060.0, signal.SIGTERM)]
    assert told.notes[0] == "SIGUSR1 was sent: the job is stopped at its time limit, in 10 s"


def test_a_limit_that_is_lengthened_after_its_notice_has_another(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(monkeypatch, 100.0)
    told.until(1080.0)
    told.of.limit_to(1000.0, 200.0)
    assert told.until(1300.0) == [
        (1070.0, signal.SIGUSR1),
        (1170.0, signal.SIGUSR1),
        (1200.0, signal.SIGTERM),
    ]


def test_a_job_that_is_told_to_stop_gets_no_more_time_from_another_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(monkeypatch, 100.0)
    told.of.stop("cancelled")
    stopped_by = told.of.wait_ms()
    told.of.limit_to(1000.0, 1000.0)
    assert told.of.wait_ms() == stopped_by


@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.0, 59.0, 60.0, 3600.0, 7260.0, 86_400.0, 90_061.0])
def test_durations_are_written_as_everywhere_else(seconds: float) -> None:
    assert in_words(seconds) == (format_duration(seconds) if seconds != 0.5 else "0.5s")
