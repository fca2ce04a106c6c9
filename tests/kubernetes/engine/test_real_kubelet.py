"""Jobs in real containers: a real kubelet with Docker runs the pods that the installed command makes."""

import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.kubernetes.cluster.client import Selection
from corral.kubernetes.cluster.resource import PODS
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.engine.site import PATIENCE_S, Site
from tests.kubernetes.real_kubelet import IMAGE, RealKubelet, why_no_kubelet

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

    deadline = time.monotonic() + PATIENCE_S
    while site.cluster.list(PODS, Selection(site.namespace)):
        assert time.monotonic() < deadline, "pods do not go once their jobs have ended"
        time.sleep(0.2)
