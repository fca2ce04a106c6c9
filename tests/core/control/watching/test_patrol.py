"""A watch that decides about jobs ends the server when it breaks; one that notes and tells goes on."""

import logging
import threading
from collections import Counter
from collections.abc import Callable

import pytest

from corral.core.control.watching.patrol import Patrol
from corral.core.model.errors import BackendFailed

PATIENCE_S = 60.0


class Rounds:
    """Breaks in its first rounds, and then goes well."""

    def __init__(self, *failures: Exception) -> None:
        self._failures = list(failures)
        self.went_well = threading.Event()

    def look(self) -> None:
        if self._failures:
            raise self._failures.pop(0)
        self.went_well.set()


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads that broke, which in a server would have ended it."""
    found: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda failure: found.append(failure.thread.name))
    return found


@pytest.fixture
def run() -> Callable[[Patrol, threading.Event], None]:
    def started(patrol: Patrol, until: threading.Event) -> None:
        patrol.start()
        try:
            assert until.wait(PATIENCE_S)
        finally:
            patrol.close()

    return started


def test_a_watch_that_is_not_vital_goes_on_counts_and_says_so_once(
    run: Callable[[Patrol, threading.Event], None], broken: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    failures = Counter[str]()
    rounds = Rounds(*(ValueError("no such shape") for _ in range(3)))
    patrol = Patrol("history", rounds.look, 0.001, vital=False, failures=failures)
    assert failures == {"history": 0}
    with caplog.at_level(logging.ERROR):
        run(patrol, rounds.went_well)
    assert broken == []
    assert failures == {"history": 3}
    assert [record.exc_info is not None for record in caplog.records] == [True]
    assert "history failed: ValueError: no such shape" in caplog.text


def test_what_a_watch_broke_on_is_known_until_a_round_goes_well() -> None:
    broke, go_on = threading.Event(), threading.Event()

    def look() -> None:
        if not broke.is_set():
            broke.set()
            raise KeyError("x")
        go_on.wait(PATIENCE_S)

    patrol = Patrol("meter", look, 0.001, vital=False)
    patrol.start()
    assert broke.wait(PATIENCE_S)
    while patrol.trouble is None:
        assert patrol.name == "meter"
    assert patrol.trouble == "a round of meter failed: KeyError: 'x'"
    go_on.set()
    while patrol.trouble is not None:
        pass
    patrol.close()


def test_a_vital_watch_that_breaks_ends_its_thread_and_so_the_server(broken: list[str]) -> None:
    patrol = Patrol("memory-guard", Rounds(ValueError("odd")).look, 0.001)
    patrol.start()
    patrol._thread.join(PATIENCE_S)
    assert broken == ["memory-guard"]


def test_an_error_of_corrals_own_ends_no_watch(
    run: Callable[[Patrol, threading.Event], None], broken: list[str]
) -> None:
    rounds = Rounds(BackendFailed("the disk is full"))
    run(Patrol("memory-guard", rounds.look, 0.001), rounds.went_well)
    assert broken == []


def test_a_first_round_at_once_waits_for_no_interval() -> None:
    rounds = Rounds()
    patrol = Patrol("readings", rounds.look, 3600.0, at_once=True)
    patrol.start()
    try:
        assert rounds.went_well.wait(PATIENCE_S)
    finally:
        patrol.close()
