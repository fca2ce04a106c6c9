"""On a server of root's, everything that a job runs can open the job's own GPUs and no others, and Corral says so."""

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.box import CORRAL, Box, described, until_there, uuid
from tests.e2e.test_users import ONE, OTHER, as_user, type_as

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can fence the jobs of others")

STAND_INS = ("/dev/zero", "/dev/full")
"""Devices that do no harm have their numbers lent to the files of GPUs."""


@pytest.fixture
def fenced(new_box: Callable[[str], Box]) -> Box:
    """A server with two GPUs that have device files, which everybody may open."""
    box = new_box(described(2))
    text = described(2)
    for index, stand_in in enumerate(STAND_INS):
        file = box.home / f"gpu{index}"
        os.mknod(file, stat.S_IFCHR, os.stat(stand_in).st_rdev)
        file.chmod(0o666)
        text = text.replace(f'"{uuid(index)}"\n', f'"{uuid(index)}"\nfile = "{file}"\n')
    box.describe(text)
    box.home.chmod(0o755)
    box.up()
    if "jobs are not fenced" in (log := (box.home / "server.log").read_text()):
        pytest.skip(f"jobs cannot be fenced here: {log.partition('jobs are not fenced')[2].splitlines()[0]}")
    return box


def opens(box: Box) -> str:
    """A script that says which of the two GPUs it has, and which it can open."""
    tries = "; ".join(f'sh -c "exec 3<>{box.home}/gpu{index}" 2>/dev/null && echo {index}' for index in range(2))
    return f"unset CUDA_VISIBLE_DEVICES; echo `{tries}` of ${{CORRAL_GPU_INDICES:-none}}"


def test_jobs_of_two_users_open_their_own_gpus(fenced: Box) -> None:
    gate = fenced.home / "gate"
    first = fenced.submit("--gpus", "1", "--", "sh", "-c", f"{opens(fenced)}; {until_there(gate)}")
    fenced.until(lambda: fenced.ok("logs", first))
    code, said = type_as(ONE, fenced, "run", "--gpus", "1", "--", "sh", "-c", opens(fenced))
    gate.touch()
    assert (code, said.split()[-3:]) == (0, ["1", "of", "1"])
    assert fenced.ok("logs", first).split() == ["0", "of", "0"]
    assert type_as(ONE, fenced, "run", "--gpus", "0", "--", "sh", "-c", opens(fenced))[1].split()[-2:] == ["of", "none"]


def test_a_command_inside_a_job_and_the_command_at_its_end_are_fenced(fenced: Box, tmp_path: Path) -> None:
    gate, file = fenced.home / "gate", tmp_path / "told"
    notify = f"({opens(fenced)}) > {file}"
    job = fenced.submit("--gpus", "1", "--notify", notify, "--", "sh", "-c", until_there(gate))
    fenced.until_phase(job, "RUNNING")
    assert fenced.ok("exec", job, "--", "sh", "-c", opens(fenced)).split() == ["0", "of", "0"]
    gate.touch()
    fenced.ended(job)
    # A command that tells of the end has no GPU any more.
    fenced.until(lambda: file.exists() and file.read_text().endswith("\n"))
    assert file.read_text().split() == ["of", "none"]


def test_each_task_of_a_gang_opens_the_gpu_of_its_member(fenced: Box) -> None:
    script = fenced.home / "gang.sh"
    script.write_text(f"#!/bin/sh\n#CORRAL --gang 2 --gpus 1\nsrun sh -c '{opens(fenced)}'\n")
    job = fenced.submit(str(script))
    assert fenced.ended(job)["phase"] == "SUCCEEDED", fenced.ok("logs", job)
    assert sorted(fenced.ok("logs", job).splitlines()) == ["0 of 0", "1 of 1"]


def reserved(box: Box) -> str:
    """A reservation of the first GPU for ONE: its id."""
    code, exports = type_as(ONE, box, "reserve", "--gpus", "1", "--for", "1h", "--detach")
    assert code == 0, exports
    return _named(exports)


def _named(exports: str) -> str:
    found = re.search(r"CORRAL_RESERVATION=(\S+)", exports)
    assert found is not None, exports
    return found[1]


def within(job: str) -> dict[str, str]:
    """The variables that `corral reserve` has a shell set, for the first GPU."""
    return {"CORRAL_RESERVATION": job, "CUDA_VISIBLE_DEVICES": uuid(0)}


def test_a_command_in_a_reservation_opens_its_gpus_and_says_so(fenced: Box) -> None:
    job = reserved(fenced)
    code, said = type_as(ONE, fenced, "run", "--", "sh", "-c", opens(fenced), **within(job))
    assert (code, said.split()[-3:]) == (0, ["0", "of", "none"])
    assert f"runs in reservation {job}" in said
    assert "on GPU 0, and cannot open those of others" in said
    (row,) = [row for row in fenced.json("ps", "--json") if row["kind"] == "reserve"]
    assert row["enforcement"]["compute"] == "advisory"
    assert row["enforcement"]["reason"] == "no fence: only the commands that `corral run` starts in it are fenced"


def test_root_is_told_that_it_can_leave_the_fence_which_the_end_of_the_reservation_does_not_open(fenced: Box) -> None:
    job = _named(fenced.ok("reserve", "--gpus", "1", "--for", "1h", "--detach"))
    inner = f"{CORRAL} release {job} 2>&1 && {opens(fenced)}"
    done = fenced.run("run", "--", "sh", "-c", f"{CORRAL} run -- sh -c '{inner}'", cwd=None, **within(job))
    assert done.stderr.count("no fence: it runs as root, who can leave its cgroup") == 2
    assert done.stdout.split()[-3:] == ["0", "of", "none"], done
    assert fenced.ended(job)["phase"] == "SUCCEEDED"
    refused = fenced.run("run", "--", "true", cwd=None, **within(job))
    assert (refused.returncode, "this shell's reservation is over" in refused.stderr) == (125, True)


def test_only_the_process_that_asks_is_fenced_and_only_by_a_reservation_of_its_user(fenced: Box) -> None:
    job = reserved(fenced)
    assert as_user(OTHER, fenced, lambda client: client.jobs.fence(job)).startswith("Forbidden: ")
    tunnel = {"pid": os.getpid()}
    answer = as_user(ONE, fenced, lambda client: client.jobs._transport.post(f"/jobs/{job}/fence", tunnel))
    assert answer == {"unfenced": "the server cannot see which process asks"}
    assert "-fence-" not in Path("/proc/self/cgroup").read_text()
    asked = as_user(ONE, fenced, lambda client: [client.jobs.fence(job), Path("/proc/self/cgroup").read_text()])
    assert (asked[0], asked[1].count("-fence-")) == (None, 1)


def test_enforced_is_said_of_users_and_of_root_the_reason_why_not(fenced: Box) -> None:
    gate = fenced.home / "gate"
    roots = fenced.submit("--gpus", "1", "--", "sh", "-c", until_there(gate))
    code, said = type_as(ONE, fenced, "submit", "--gpus", "1", "--", "sh", "-c", until_there(gate))
    assert code == 0, said
    users = fenced.job(str(int(roots) + 1))["id"]
    for job in (roots, users):
        fenced.until_phase(job, "RUNNING")
    assert "memory enforced, compute enforced" in fenced.ok("show", users)
    shown, why = fenced.ok("show", roots), "no fence: it runs as root, who can leave its cgroup"
    assert "memory advisory, compute advisory" in shown
    assert f"advisory: {why}" in shown
    assert why in fenced.ok("why", roots)
    assert [fenced.job(job)["enforcement"]["reason"] for job in (roots, users)] == [why, None]
    gate.touch()
