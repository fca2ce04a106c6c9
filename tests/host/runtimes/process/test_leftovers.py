"""What a supervisor leaves that died is killed, however long that takes."""

import os
import signal

import pytest

from corral.core.model.runs.launch import LaunchPhase
from tests.host.runtimes.process.conftest import Machine, alive, no_descriptors, until


def test_killing_that_can_open_nothing_goes_on_when_it_can_again(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    name = machine.launch("sh", "-c", "echo up; sleep 60")
    machine.wait_for_log(name, "up")
    supervisor, (job, *_) = machine.supervisor(name), machine.runtime.pids(name)
    with no_descriptors():
        os.kill(supervisor, signal.SIGKILL)
        assert machine.runtime._leftovers.kill(name)
        until(lambda: "the search is repeated" in caplog.text, "an attempt that failed")
    assert machine.wait(name).phase is LaunchPhase.DEAD
    assert not alive(job)
