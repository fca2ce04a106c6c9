import re
import subprocess
import sys

import pytest

from corral.cli.local.reserved_run import forget
from tests.e2e.box import Box

ASK = "from corral.cli.jobs.reserve import session_owner; print(session_owner())"
NAMESPACE = ["unshare", "--user", "--map-root-user", "--pid", "--fork"]


def in_a_namespace(*command: str) -> subprocess.CompletedProcess[str]:
    """A command in a pid namespace of its own, as in a container: the session's leader is outside of it."""
    if subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine allows no pid namespaces")
    return subprocess.run([*NAMESPACE, *command], capture_output=True, text=True, check=False, timeout=90)


def test_a_reservation_belongs_to_the_session_it_is_typed_in() -> None:
    shell = [sys.executable, "-c", f"import os; {ASK}; print(os.getpid())"]
    owner, leader = subprocess.check_output(shell, start_new_session=True, text=True).split()
    assert owner == leader


def test_where_a_container_hides_the_session_the_parent_owns_the_reservation() -> None:
    done = in_a_namespace("sh", "-c", f"{sys.executable} -c '{ASK}'; exit $?")
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_a_reservation_that_nothing_would_end_is_refused_with_the_way_out() -> None:
    done = in_a_namespace(sys.executable, "-c", ASK)
    assert done.returncode != 0
    assert "use --detach to keep them until the time is up" in done.stderr


def test_release_without_an_id_ends_the_reservation_of_this_shell_which_then_forgets_it(box: Box) -> None:
    exports = box.ok("reserve", "--gpus", "1", "--for", "1h", "--detach")
    (job_id,) = re.findall(r"CORRAL_RESERVATION=(\S+)", exports)
    done = box.run("release", CORRAL_RESERVATION=job_id)
    assert (done.returncode, done.stdout) == (0, forget() + "\n")
    assert f"released reservation {job_id}" in done.stderr
    box.ended(job_id)
    again = box.run("release", CORRAL_RESERVATION=job_id)
    assert (again.returncode, again.stdout) == (1, forget() + "\n")
    waits = box.submit("--hold", "--", "true")
    refused = box.run("release", CORRAL_RESERVATION=waits)
    assert (refused.returncode, f"job {waits} is no reservation" in refused.stderr) == (2, True)
