"""A host that is renamed under its jobs. In a namespace of its own, so that nobody else hears of the name."""

import subprocess
from collections.abc import Callable

import pytest

from tests.e2e.box import CORRAL, Box, described, until_there

RENAMED = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"']


def up_as(box: Box, name: str) -> None:
    """Start the server where the host is called `name`."""
    command = [*RENAMED, name, CORRAL, "up", "--detach", "--mock", str(box.mock)]
    done = subprocess.run(command, env=box.env, capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == 0, done.stderr


def test_jobs_outlive_a_new_name_of_their_host_which_it_takes_when_they_have_ended(
    new_box: Callable[[str], Box],
) -> None:
    if subprocess.run([*RENAMED, "other", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine allows no namespace for a host name of its own")
    box = new_box(described(1))
    up_as(box, "before")
    gate = box.home / "gate"
    job = box.submit("--", "sh", "-c", f"{until_there(gate)}; exit 3")
    box.until_phase(job, "RUNNING")
    box.down()
    up_as(box, "after")
    assert [row["name"] for row in box.json("nodes", "--json")] == ["before"]
    assert box.job(job)["phase"] == "RUNNING"
    gate.touch()
    assert (box.ended(job)["phase"], box.job(job)["exit_code"]) == ("FAILED", 3)
    box.down()
    up_as(box, "after")
    assert [row["name"] for row in box.json("nodes", "--json")] == ["after"]
