import os
import platform
import signal
import subprocess

import pytest

from corral.pidfd import exit_status

KERNEL = tuple(int(number) for number in platform.release().split("-")[0].split(".")[:2])
tells = pytest.mark.skipif(KERNEL < (6, 15), reason="only Linux 6.15 and later tell how a process ended by its pidfd")


@tells
@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", -signal.SIGKILL)])
def test_a_process_that_was_reaped_tells_how_it_ended(script: str, status: int) -> None:
    child = subprocess.Popen(["/bin/sh", "-c", script])
    pidfd = os.pidfd_open(child.pid)
    child.wait(timeout=60)
    assert exit_status(pidfd) == status
    os.close(pidfd)


def test_a_process_that_runs_tells_nothing() -> None:
    child = subprocess.Popen(["/bin/sleep", "60"])
    pidfd = os.pidfd_open(child.pid)
    try:
        assert exit_status(pidfd) is None
    finally:
        child.kill()
        child.wait()
        os.close(pidfd)
