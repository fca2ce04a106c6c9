"""How long `corral run` waits for a server or a node that is away."""

import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from corral.cli.jobs import follower
from corral.cli.jobs.follower import RESTART_GRACE_S, Follower
from corral.client import JobRow, NoServer
from corral.core.model.errors import BackendFailed
from corral.core.model.jobs.phase import Phase

ADVICE = "mostly a library; install another"
CRASH = "exit code 139 (SIGSEGV: it read or wrote memory that is not its own)"
NODE_AWAY, SERVER_AWAY = BackendFailed("node a does not answer"), NoServer("no server")


class Stub:
    """A client whose answers to `logs_bytes` are given: an error, or the blocks that come; each takes `takes_s`."""

    def __init__(self, answers: list[Exception | list[bytes]], phase: Phase, takes_s: float) -> None:
        self.now = 0.0
        self._answers = answers
        self._takes_s = takes_s
        self._row = JobRow("1", phase=phase, exit_code=0)
        self.end = JobRow("1", phase=Phase.SUCCEEDED, exit_code=0)
        self.jobs = SimpleNamespace(
            logs_bytes=self._logs, get=lambda _: self._row, why=lambda _: SimpleNamespace(diagnosis=ADVICE)
        )

    def _logs(self, job_id: str, **given: Any) -> Iterator[bytes]:
        answer = self._answers.pop(0)
        self.now += self._takes_s
        if isinstance(answer, Exception):
            raise answer
        yield from answer

    def wait(self, job_id: str) -> list[JobRow]:
        return [self.end]


def follow(monkeypatch: pytest.MonkeyPatch, stub: Stub) -> int:
    def rest(seconds: float) -> None:
        stub.now += seconds

    monkeypatch.setattr(follower, "time", SimpleNamespace(monotonic=lambda: stub.now, sleep=rest))
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return Follower(stub).follow("1")  # type: ignore[arg-type]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_the_last_output_waits_for_an_agent_that_restarts_as_its_job_ends(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert follow(monkeypatch, Stub([NODE_AWAY, NODE_AWAY, NODE_AWAY, [b"last\n"]], Phase.SUCCEEDED, 1.0)) == 0
    assert capfdbinary.readouterr().out == b"last\n"


def test_a_node_that_stays_away_does_not_keep_run_from_ending(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert follow(monkeypatch, Stub([NODE_AWAY] * 99, Phase.SUCCEEDED, 1.0)) == 0
    assert "the rest of the output of job 1 cannot be read" in " ".join(capfd.readouterr().err.split())


def test_a_server_that_is_away_again_later_is_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job writes nothing between the two."""
    assert follow(monkeypatch, Stub([SERVER_AWAY, SERVER_AWAY, []], Phase.RUNNING, 2 * RESTART_GRACE_S)) == 0


@pytest.mark.parametrize("noted", [True, False], ids=["in the log", "not in the log yet"])
def test_an_attempt_that_ends_as_the_one_before_is_told_in_full_all_the_same(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], noted: bool
) -> None:
    lines = [f"corral: attempt {number} failed with {CRASH}: {ADVICE}\n".encode() for number in (1, 2)]
    stub = Stub([lines if noted else lines[:1]], Phase.FAILED, 0.0)
    stub.end = JobRow("1", phase=Phase.FAILED, exit_code=139, signal=11, attempts=2)
    assert follow(monkeypatch, stub) == 139
    told = " ".join(" ".join(capfd.readouterr()).split())
    assert (told.count(CRASH), told.count(ADVICE)) == (2, 2)
