import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from queue import Queue

import pytest

from corral.clock import ManualClock
from corral.control.checkpointing import Checkpoints
from corral.model.job import Job, Phase
from tests.control.strategies import job

SAVES = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
print("up", flush=True)
signal.sigwait({signal.SIGUSR1})
sys.exit(7)
"""
PATIENCE_S = 60.0


@contextlib.contextmanager
def worker() -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen([sys.executable, "-c", SAVES], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n"
            yield process
        finally:
            process.kill()


def evicted(stop_reason: Phase = Phase.PENDING, signal: str | None = "USR1") -> Job:
    base = job(1)
    spec = replace(base.spec, checkpoint_signal=signal, checkpoint_grace_s=0.05)
    return replace(base, spec=spec, phase=Phase.STOPPING, stop_reason=stop_reason)


def test_an_evicted_job_is_told_before_it_is_stopped_and_has_its_time() -> None:
    clock, calls = ManualClock(), Queue[str]()
    checkpoints = Checkpoints(clock, calls.put)
    with worker() as process:
        assert not checkpoints.may_end(evicted(), "1.1", lambda: [process.pid])
        assert process.wait(timeout=PATIENCE_S) == 7
    assert calls.get(timeout=PATIENCE_S) == "1.1"
    assert not checkpoints.may_end(evicted(), "1.1", list)
    clock.advance(0.05)
    assert checkpoints.may_end(evicted(), "1.1", list)


@pytest.mark.parametrize("victim", [evicted(stop_reason=Phase.CANCELLED), evicted(signal=None)])
def test_who_was_cancelled_or_asked_for_no_signal_is_stopped_at_once(victim: Job) -> None:
    assert Checkpoints(ManualClock(), lambda _: None).may_end(victim, "1.1", list)
