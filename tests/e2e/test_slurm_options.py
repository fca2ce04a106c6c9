"""Options of sbatch that a script relies on, each seen in what the job gets."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.box import SETTINGS, Box, serving, until_there
from tests.engines.pool import cluster

NODES = {"gpu-01": "", "gpu-02": "", "gpu-03": ""}


@pytest.fixture(scope="module")
def _site() -> Iterator[Box]:
    with serving(cluster(**NODES), SETTINGS + "queues:\n  - name: default\n  - name: long\n") as box:
        yield box


@pytest.fixture
def site(_site: Box) -> Iterator[Box]:
    """Three nodes of two GPUs each, and a queue besides the usual one."""
    yield _site
    _site.clear()


def script(folder: Path, *lines: str, head: str = "#SBATCH") -> str:
    path = folder / "job.sh"
    options = [line for line in lines if line.startswith("-")]
    body = [line for line in lines if not line.startswith("-")]
    path.write_text("\n".join(["#!/bin/bash", *(f"{head} {line}" for line in options), "set -euo pipefail", *body, ""]))
    return str(path)


def written(site: Box, path: str, *flags: str) -> str:
    """The log of a job that succeeds."""
    job_id = site.submit(*flags, path)
    row = site.ended(job_id)
    assert row["phase"] == "SUCCEEDED", site.ok("logs", job_id)
    return site.ok("logs", job_id)


def test_a_job_keeps_off_the_nodes_that_its_script_excludes_and_to_those_that_it_lists(
    site: Box, tmp_path: Path
) -> None:
    show = "echo $CORRAL_NODE $SLURM_JOB_NODELIST"
    assert written(site, script(tmp_path, "--exclude=gpu-[01,03]", show)) == "gpu-02 gpu-02\n"
    assert written(site, script(tmp_path, "-w gpu-03", show)) == "gpu-03 gpu-03\n"
    assert written(
        site, script(tmp_path, "--node gpu-[01-02] --exclude gpu-01", "echo $CORRAL_NODE", head="#CORRAL")
    ).startswith("gpu-02")
    assert site.ok("run", "--exclude", "gpu-01", "--exclude", "gpu-02", "--", "sh", "-c", show).startswith("gpu-03")


def test_who_waits_for_the_nodes_that_are_left_is_told_what_it_excludes(site: Box, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    holder = site.submit("--gpus", "2", "--node", "gpu-02", "--", "sh", "-c", until_there(gate))
    site.until_phase(holder, "RUNNING")
    waiting = site.submit("--exclude", "gpu-[01,03]", "--", "true")
    assert "not on node gpu-01 or gpu-03" in site.ok("why", waiting)
    assert "it excludes gpu-01 and gpu-03" in site.ok("why", waiting)
    assert site.json("show", "--json", waiting)["spec"]["request"]["excluded_nodes"] == ["gpu-01", "gpu-03"]
    gate.touch()
    assert site.ended(waiting)["phase"] == "SUCCEEDED"
    refused = site.run("submit", "--exclude", "gpu-[01-03]", "--", "true")
    assert (refused.returncode, "all nodes here are excluded" in refused.stderr) == (2, True)
    told = site.run("submit", "--dry-run", "--exclude", "gpu-9", "--", "true")
    assert "there is no node gpu-9 here, which the job excludes" in told.stdout + told.stderr


def test_excluded_nodes_are_taken_by_the_api_too(site: Box) -> None:
    body = {
        "command": ["true"],
        "workdir": "/",
        "request": {"excluded_nodes": ["gpu-01"], "nodes": ["gpu-01", "gpu-02"]},
    }
    row = site.ended(site.api("/api/v1/jobs", body)["id"])
    assert row["devices"][0].startswith("GPU-gpu-02")


def test_a_ddp_script_finds_the_nodes_that_its_job_has(site: Box, tmp_path: Path) -> None:
    path = script(
        tmp_path,
        "--nodes=2 --ntasks-per-node=2 --gpus-per-node=2",
        'nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))',
        'echo "${nodes[@]} of $SLURM_NNODES $SLURM_JOB_NUM_NODES, $SLURM_TASKS_PER_NODE, ${nodes[0]} is $CORRAL_NODE"',
        '[ "$SLURM_NODELIST" = "$SLURM_JOB_NODELIST" ] && [ "$SLURM_JOBID" = "$SLURM_JOB_ID" ]',
        "srun sh -c 'echo $SLURM_PROCID:$SLURMD_NODENAME' | sort",
    )
    first, *tasks = written(site, path, "--exclude", "gpu-02").splitlines()
    assert first == "gpu-01 gpu-03 of 2 2, 2(x2), gpu-01 is gpu-01"
    assert tasks == ["0:gpu-01", "1:gpu-01", "2:gpu-03", "3:gpu-03"]


def test_an_array_knows_its_extent_and_a_job_after_it_runs_when_all_is_done(site: Box, tmp_path: Path) -> None:
    extent = " ".join(f"$SLURM_ARRAY_TASK_{name}" for name in ("ID", "COUNT", "MIN", "MAX", "STEP"))
    array = site.submit(
        script(tmp_path, "--array=2-6:2%2 --gres=none", f"echo {extent} >> parts", "--chdir=" + str(tmp_path))
    )
    (tmp_path / "after").mkdir()
    gather = script(tmp_path / "after", f"--dependency=afterok:{array} --gres=none", f"sort {tmp_path}/parts")
    assert written(site, gather) == "2 3 2 6 2\n4 3 2 6 2\n6 3 2 6 2\n"


MANY = (
    "--job-name=many", "--account=lab", "--partition=gpu,long", "--qos=normal", "--nodes=1", "--ntasks=2",
    "--cpus-per-task=2", "--gpus-per-task=1", "--mem=1G", "--tmp=1G", "--time=0-00:10:00", "--input=in.txt",
    "--output=out-%j.txt", "--error=err-%j.txt", "--open-mode=append",
    "--export=\"FOO=1,BAR='a,b'\"", "--constraint=gpu-02",
    "--exclude=gpu-01", "--nodelist=gpu-[01-02]", "--mail-type=NONE", "--requeue", "--nice=100", "--hint=nomultithread",
    "--begin=now", "--signal=B:USR1@60", "--comment=all-at-once",
)  # fmt: skip


def test_a_script_with_two_dozen_options_gets_all_of_them(site: Box, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("from a file\n")
    path = script(
        tmp_path,
        *MANY,
        f"--chdir={tmp_path}",
        "cat; echo $FOO $BAR ${HOME:+home} $CORRAL_NODE $SLURM_NTASKS; echo e >&2",
    )
    done = site.run("submit", path)
    assert done.returncode == 0, done.stderr
    job_id = done.stdout.strip()
    row = site.ended(job_id)
    assert row["phase"] == "SUCCEEDED", site.ok("logs", job_id)
    assert (tmp_path / f"out-{job_id}.txt").read_text() == "from a file\n1 a,b home gpu-02 2\n"
    assert (tmp_path / f"err-{job_id}.txt").read_text() == "e\n"
    assert (row["queue"], row["name"]) == ("long", "many")
    assert "input      in.txt" in site.ok("show", job_id)
    request = site.json("show", "--json", job_id)["spec"]["request"]
    assert (request["devices"], request["cpu_milli"], request["host_memory_mib"], request["disk_mib"]) == (
        2,
        4000,
        1024,
        1024,
    )
    ignored = done.stderr.splitlines()[0]
    for option in ("--account=lab", "--qos=normal", "--hint=nomultithread", "--comment=all-at-once"):
        assert option in ignored
    assert "--partition" not in ignored
    assert "--export: unlike in Slurm the job keeps the rest" in done.stderr


def test_all_that_is_wrong_with_a_script_is_told_at_once(site: Box, tmp_path: Path) -> None:
    path = script(
        tmp_path,
        *MANY,
        "--uid=0",
        "--export-file=env",
        "--time=soon",
        "--licenses=x",
        "--constraint=infiniband",
        "true",
    )
    done = site.run("submit", path)
    assert (done.returncode, done.stdout) == (2, "")
    lines = [line for line in done.stderr.splitlines() if "job.sh, line " in line]
    assert [line.partition("line ")[2].partition(":")[0] for line in lines] == ["28", "29", "30", "31", "32"]
    assert "'infiniband' is neither a word of a GPU model nor a label here" in lines[4]


def test_what_the_server_refuses_is_told_with_its_line(site: Box, tmp_path: Path) -> None:
    done = site.run("submit", script(tmp_path, "--signal=USR1@120", "--time=1", "true"))
    assert done.returncode == 2
    assert "job.sh, line 2: --signal: checkpoint_signal: S:USR1 is sent 2m before the time limit" in done.stderr


def test_a_script_that_is_only_to_be_tested_is_not_submitted(site: Box, tmp_path: Path) -> None:
    path = script(tmp_path, "--test-only", "true")
    before = site.json("ps", "--all", "--json")
    assert "would start now" in site.ok("submit", path)
    assert site.json("ps", "--all", "--json") == before


def test_an_unreadable_input_fails_the_job_with_words(site: Box, tmp_path: Path) -> None:
    job_id = site.submit("--input", str(tmp_path / "none"), "--", "cat")
    assert site.ended(job_id)["exit_code"] == 126
    assert f"cannot read the input from {tmp_path}/none: No such file or directory" in site.ok("logs", job_id)
    (tmp_path / "part-3").write_text("three\n")
    element = site.submit("--array", "3", "--gpus", "0", "--input", str(tmp_path / "part-%a"), "--", "cat")
    site.ended(f"{element}_3")
    assert site.ok("logs", f"{element}_3") == "three\n"


def test_lines_of_ours_take_times_as_slurm_writes_them(site: Box, tmp_path: Path) -> None:
    job_id = site.submit(script(tmp_path, "--time 1:00:00", "true", head="#CORRAL"))
    assert site.json("show", "--json", job_id)["spec"]["time_limit_s"] == 3600

    done = site.run("submit", script(tmp_path, "--time 90", "true", head="#CORRAL"))
    assert "job.sh, line 2: --time: '90' is not a duration" in done.stderr
