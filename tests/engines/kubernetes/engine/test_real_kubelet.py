"""Jobs in real containers: a real kubelet with Docker runs the pods that the installed command makes."""

import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.engines.kubernetes.cluster.client import Selection
from corral.engines.kubernetes.cluster.resource import PODS
from tests.e2e.box import CORRAL
from tests.e2e.terminal import corral
from tests.engines.kubernetes.control_plane import ControlPlane
from tests.engines.kubernetes.engine.site import PATIENCE_S, Site
from tests.engines.kubernetes.real_kubelet import IMAGE, RealKubelet, why_no_kubelet

LACKING = why_no_kubelet()
pytestmark = pytest.mark.skipif(LACKING is not None, reason=f"no real kubelet: {LACKING}")


@pytest.fixture
def kubelet(site: Site, control_plane: ControlPlane) -> Iterator[RealKubelet]:
    # The paths of its sockets, 108 bytes at most, begin with this directory.
    with tempfile.TemporaryDirectory(prefix="kubelet-") as directory:
        kubelet = RealKubelet(control_plane, site.cluster, Path(directory) / "host")
        try:
            kubelet.start(gpus=2)
            yield kubelet
            site.corral("down", status=None)
        finally:
            kubelet.close()


def told(site: Site, job: str) -> str:
    return re.sub(r"\s+", " ", site.corral("show", job))


def test_jobs_run_in_containers_of_a_real_kubelet(site: Site, kubelet: RealKubelet) -> None:
    # One test: to start this node takes longer than all that is seen on it.
    site.up()
    on = ("--image", IMAGE, "--node", kubelet.name)

    said = site.corral("run", *on, "--gpus", "0", "--", "sh", "-c", "echo hi; exit 3", status=3)
    assert "hi\n" in said
    assert site.corral("logs", "1") == "hi\n"
    assert "exit code 3" in told(site, "1")

    script = "echo job $CORRAL_JOB_ID > $CORRAL_SCRATCH/x && cat $CORRAL_SCRATCH/x; echo '$(HOME)'"
    site.corral("run", *on, "--gpus", "1", "--", "sh", "-c", script)
    assert site.corral("logs", "2") == "job 2\n$(HOME)\n"

    hungry = ("dd", "if=/dev/zero", "of=/dev/null", "bs=512M", "count=1")
    site.corral("run", *on, "--gpus", "0", "--host-memory", "64M", "--", *hungry, status=137)
    # "(OOMKilled)", or "perhaps" where the kubelet had not heard of it yet.
    assert "more host memory than it was granted" in told(site, "3")

    site.corral("run", *on, "--gpus", "0", "--", "no-such-program", status=127)
    assert "could not be started" in told(site, "4")

    patient = "trap 'echo last; exit 7' TERM; echo began; while :; do sleep 0.1; done"
    site.corral("submit", *on, "--gpus", "2", "--", "sh", "-c", patient)
    site.until("logs", "5", says="began")
    site.corral("cancel", "5")
    site.until("show", "5", says="CANCELLED")
    # SIGKILL would have made it 137.
    assert "exit code 7" in told(site, "5")
    assert site.corral("logs", "5") == "began\nlast\n"

    see_commands_inside(site, on)

    deadline = time.monotonic() + PATIENCE_S
    while site.cluster.list(PODS, Selection(site.namespace)):
        assert time.monotonic() < deadline, "pods do not go once their jobs have ended"
        time.sleep(0.2)


def see_commands_inside(site: Site, on: tuple[str, ...]) -> None:
    """Commands inside a job that runs in a pod."""
    site.corral("submit", *on, "--gpus", "1", "--env", "MINE=as submitted", "--", "sleep", "1000")
    site.until("show", "6", says="RUNNING")

    assert site.corral("exec", "6", "--", "sh", "-c", "echo $MINE; exit 7", status=7) == "as submitted\n"
    assert "nosuch" in site.corral("exec", "6", "nosuch", status=127)
    assert "No such file" in site.corral("exec", "6", "--", "cat", "/nosuch", status=1)
    assert site.corral("exec", "6", "--", "sh", "-c", "kill -TERM $$", status=143) == ""
    assert site.corral("exec", "6", "--", "sh", "-c", "read a; echo got $a", typed="this\n") == "got this\n"
    large, all_of_it = "x" * 1_000_000, ("dd", "bs=1000000", "count=1", "iflag=fullblock", "status=none")
    assert site.corral("exec", "6", "--", *all_of_it, typed=large) == large

    with corral(site, "exec", "6") as screen:
        screen.after(b"# ")
        screen.press(b"echo u''p $MINE\r")
        screen.after(b"up as submitted\r\n")
        screen.resize(31, 97)
        screen.press(b"sh -c \"trap 'stty size' WINCH; echo u''p; while :; do sleep 0.05; done\"\r")
        screen.after(b"up\r\n")
        screen.resize(12, 34)
        screen.after(b"12 34\r\n")
        screen.press(b"\x03")
        screen.press(b"exit 5\r")
        assert screen.to_the_end() == 5

    with corral(site, "exec", "6") as screen:
        screen.after(b"# ")
        screen.press(b"sleep 4321\r")
        until_inside(site, "sleep 4321", there=True)
        screen.process.kill()
        until_inside(site, "sleep 4321", there=False)

    reader = subprocess.Popen([CORRAL, "exec", "6", "--", "cat", "-u"], env=site.env, stdin=subprocess.PIPE)
    until_inside(site, "cat -u", there=True)
    reader.kill()
    until_inside(site, "cat -u", there=False)
    reader.communicate()

    site.corral("cancel", "6")
    site.until("show", "6", says="CANCELLED")
    assert "has ended" in site.corral("exec", "6", "true", status=125)


def until_inside(site: Site, command: str, *, there: bool) -> None:
    """Until such a command runs in the job's container, or does not any more."""
    look = "for one in /proc/[0-9]*; do cat $one/cmdline; echo; done"
    deadline = time.monotonic() + PATIENCE_S
    while (command in site.corral("exec", "6", "--", "sh", "-c", look).replace("\0", " ")) is not there:
        assert time.monotonic() < deadline, command
        time.sleep(0.2)
