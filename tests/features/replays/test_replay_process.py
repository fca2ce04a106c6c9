"""Replays in processes of their own: real ones, over a real ledger; and processes that fail in every way."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from corral.core.ledger.store import open_ledger
from corral.core.model.errors import BackendFailed, Refused
from corral.core.ports.ledger import Decided
from corral.features.replays.replay_order import ReplayStopped
from corral.features.replays.replay_process import ReplayProcess
from tests.core.scheduling.lab import T0
from tests.features.replays.test_replay import ORDER
from tests.sim.test_journal import PAST

PATIENCE_S = 60.0


def worker(answer: str) -> str:
    """The program of a real worker that does this in place of a replay."""
    return (
        "import time, corral.features.replays.replay_worker as w; w.from_plain = lambda *_: None; "
        f"w.answer = lambda *_: {answer}; w.main()"
    )


@pytest.fixture
def ledger_url(tmp_path: Path) -> str:
    """A ledger with two jobs."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ledger = open_ledger(url)
    ledger.commit(lambda _: Decided(tuple(PAST), None)).result()
    ledger.close()
    return url


def untold(done: int, total: int) -> None:
    """For a replay that nobody watches."""


def child(script: str, *, time_limit_s: float = PATIENCE_S) -> ReplayProcess:
    return ReplayProcess("", time_limit_s=time_limit_s, command=(sys.executable, "-c", script))


def test_a_replay_is_run_over_what_the_ledger_has(ledger_url: str) -> None:
    told: list[tuple[int, int]] = []
    result = ReplayProcess(ledger_url).run(ORDER, lambda *so_far: told.append(so_far), lambda: True)
    assert [(one.name, one.max_wait_s) for one in result.courses] == [("recorded", 1000), ("configured", 1000)]
    assert told


def test_a_time_without_jobs_is_refused_in_words(ledger_url: str) -> None:
    with pytest.raises(Refused, match="choose another"):
        ReplayProcess(ledger_url).run(replace(ORDER, since=T0 + 4000), untold, lambda: True)


def test_a_ledger_that_is_damaged_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_text("no ledger " * 1000)
    with pytest.raises(Refused, match="damaged"):
        ReplayProcess(f"sqlite:///{tmp_path / 'ledger.db'}").run(ORDER, untold, lambda: True)


def test_one_that_is_killed_in_the_middle_fails_with_what_ended_it() -> None:
    runner = child("import os, time; print('{\"progress\": [%d, 0]}' % os.getpid(), flush=True); time.sleep(1000)")
    with pytest.raises(BackendFailed, match="signal 9"):
        runner.run(ORDER, lambda pid, _: os.kill(pid, signal.SIGKILL), lambda: True)


def test_one_that_is_killed_before_it_reads_its_order_fails_with_what_ended_it() -> None:
    longer_than_a_pipe_holds = "x" * 1_000_000
    killed = (sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(BackendFailed, match="signal 9"):
        ReplayProcess(longer_than_a_pipe_holds, command=killed).run(ORDER, untold, lambda: True)


def test_one_that_nobody_wants_any_more_is_ended() -> None:
    pids: list[int] = []
    runner = child("import os, time; print('{\"progress\": [%d, 0]}' % os.getpid(), flush=True); time.sleep(1000)")
    with pytest.raises(ReplayStopped):
        runner.run(ORDER, lambda pid, _: pids.append(pid), lambda: not pids)
    assert not Path(f"/proc/{pids[0]}").exists()


def test_a_stop_ends_it_at_once_and_no_other_begins() -> None:
    runner = child("import os, time; print('{\"progress\": [%d, 0]}' % os.getpid(), flush=True); time.sleep(1000)")
    begun = threading.Event()

    def stop() -> None:
        begun.wait(PATIENCE_S)
        runner.stop()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(ReplayStopped):
        runner.run(ORDER, lambda *_: begun.set(), lambda: True)
    stopper.join()
    with pytest.raises(ReplayStopped):
        runner.run(ORDER, untold, lambda: True)


def test_one_that_takes_too_long_is_ended_and_says_what_to_do() -> None:
    with pytest.raises(BackendFailed, match="shorter time or fewer policies"):
        child("import time; time.sleep(1000)", time_limit_s=0.2).run(ORDER, untold, lambda: True)


@pytest.mark.parametrize(
    "said", ["no JSON", "[]", "7", '{"progress": 3}', '{"progress": [1]}', '{"result": {"since": 1}}', '{"other": 1}']
)
def test_what_makes_no_sense_fails_the_replay_alone(said: str) -> None:
    with pytest.raises(BackendFailed):
        child(f"print({said!r})").run(ORDER, untold, lambda: True)


def test_one_that_ends_without_an_answer_has_failed() -> None:
    with pytest.raises(BackendFailed, match="exit code 3"):
        child("raise SystemExit(3)").run(ORDER, untold, lambda: True)


def test_it_does_not_outlive_the_server_that_started_it() -> None:
    with subprocess.Popen([sys.executable, "-c", worker("time.sleep(1000)")], stdin=subprocess.PIPE) as orphan:
        assert orphan.stdin is not None
        orphan.stdin.write(b'{"ledger_url": "", "order": {}}\n')
        orphan.stdin.close()
        assert orphan.wait(PATIENCE_S) != 0


def test_one_that_needs_too_much_memory_says_so() -> None:
    with pytest.raises(Refused, match="2 GiB of memory"):
        child(worker("bytearray(3 * 1024**3)")).run(ORDER, untold, lambda: True)


def test_what_an_order_of_the_site_prints_is_not_taken_for_the_answer() -> None:
    chatty = """
import corral.features.replays.replay_worker as w
from corral.core.model.errors import Refused

def answer(*_):
    print('{"result": 7}', flush=True)
    raise Refused("the end is heard")

w.from_plain, w.answer = lambda *_: None, answer
w.main()
"""
    with pytest.raises(Refused, match="is heard"):
        child(chatty).run(ORDER, untold, lambda: True)
