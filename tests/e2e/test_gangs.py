"""Gangs as users see them: a process a member, one end for all, and scripts whose srun reaches every member."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.box import Box, serving, until_there, uuid
from tests.engines.pool import cluster

SHOW = 'echo "$RANK of $WORLD_SIZE, $LOCAL_RANK here: $CUDA_VISIBLE_DEVICES"'


def written(box: Box, job_id: str) -> list[str]:
    return box.ok("logs", "--rank", "all", job_id).splitlines()


def script(folder: Path, text: str) -> str:
    path = folder / "job.sh"
    path.write_text(f"#!/bin/sh\n{text}")
    return str(path)


def test_each_member_has_a_rank_a_gpu_and_a_log_of_its_own(box: Box) -> None:
    job_id = box.submit("--gang", "3", "--", "sh", "-c", SHOW)
    assert box.ended(job_id)["phase"] == "SUCCEEDED"
    lines = [f"{rank} of 3, {rank} here: {uuid(rank)}" for rank in range(3)]
    assert [box.ok("logs", "--rank", str(rank), job_id) for rank in range(3)] == [f"{line}\n" for line in lines]
    assert box.ok("logs", job_id) == f"{lines[0]}\n"
    assert sorted(written(box, job_id)) == [f"[{rank}] {line}" for rank, line in enumerate(lines)]


def test_all_members_are_told_one_place_to_meet(box: Box) -> None:
    job_id = box.submit("--gang", "2", "--", "sh", "-c", "echo $MASTER_ADDR:$MASTER_PORT $NODE_RANK $CORRAL_NODES")
    box.ended(job_id)
    first, second = (box.ok("logs", "--rank", str(rank), job_id) for rank in range(2))
    assert first == second
    assert first.startswith("127.0.0.1:")


def test_a_member_that_fails_has_the_others_stopped_and_its_code_is_the_jobs(box: Box) -> None:
    job_id = box.submit("--gang", "3", "--", "sh", "-c", "[ $RANK = 1 ] && exit 7; exec sleep 1000")
    row = box.ended(job_id)
    assert (row["phase"], row["exit_code"]) == ("FAILED", 7)
    assert row["reason"].startswith("rank 1 on ")
    assert row["reason"].endswith(" exited with 7")
    assert {device["state"] for device in box.json("devices", "--json")} == {"free"}


def test_a_gang_that_is_cancelled_ends_whole(box: Box, tmp_path: Path) -> None:
    job_id = box.submit("--gang", "2", "--", "sh", "-c", f"touch {tmp_path}/$RANK; exec sleep 1000")
    box.until(lambda: len(list(tmp_path.iterdir())) == 2)
    box.until_phase(job_id, "RUNNING")
    box.ok("cancel", job_id)
    assert box.ended(job_id)["phase"] == "CANCELLED"


def test_a_script_runs_once_and_its_srun_reaches_every_member(box: Box, tmp_path: Path) -> None:
    text = f"#CORRAL --gang 3\necho once${{RANK:-}}\nsrun -l sh -c '{SHOW}'\nexit 4\n"
    job_id = box.submit(script(tmp_path, text))
    row = box.ended(job_id)
    assert (row["phase"], row["exit_code"]) == ("FAILED", 4)
    first, *others = box.ok("logs", job_id).splitlines()
    assert first == "once"
    assert sorted(others) == [f"{rank}: {rank} of 3, {rank} here: {uuid(rank)}" for rank in range(3)]
    assert box.ok("logs", "--rank", "2", job_id) == ""


def test_a_script_that_calls_no_srun_ends_alone_and_well(box: Box, tmp_path: Path) -> None:
    job_id = box.submit(script(tmp_path, "#CORRAL --gang 2\necho done\n"))
    assert box.ended(job_id)["phase"] == "SUCCEEDED"
    assert box.ok("logs", job_id) == "done\n"


def test_a_script_for_slurm_on_one_node_runs_its_tasks(box: Box, tmp_path: Path) -> None:
    step = "srun --gpus-per-task=1 sh -c 'echo $SLURM_PROCID $CUDA_VISIBLE_DEVICES'"
    job_id = box.submit(script(tmp_path, f"#SBATCH --ntasks=4 --gpus-per-task=1\n{step}\n"))
    assert box.ended(job_id)["phase"] == "SUCCEEDED"
    assert sorted(box.ok("logs", job_id).splitlines()) == [f"{rank} {uuid(rank)}" for rank in range(4)]


def test_logs_of_all_members_are_followed_until_the_job_has_ended(box: Box, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job_id = box.submit("--gang", "2", "--", "sh", "-c", f"echo begun; {until_there(gate)}; printf over")
    following = box.start("logs", "--follow", "--rank", "all", job_id)
    assert following.stdout is not None
    assert sorted(following.stdout.readline() for _ in range(2)) == ["[0] begun\n", "[1] begun\n"]
    gate.touch()
    assert sorted(following.communicate()[0].splitlines()) == ["[0] over", "[1] over"]


def test_members_write_to_files_of_their_own(box: Box, tmp_path: Path) -> None:
    job_id = box.submit("--gang", "2", "--output", f"{tmp_path}/%j-%t.out", "--", "sh", "-c", "echo $RANK")
    box.ended(job_id)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        f"{job_id}-0.out": "0\n",
        f"{job_id}-1.out": "1\n",
    }


def test_a_rank_that_a_job_does_not_have_is_refused(box: Box) -> None:
    job_id = box.submit("--gang", "2", "--", "true")
    box.ended(job_id)
    done = box.run("logs", "--rank", "2", job_id)
    assert done.returncode == 2
    assert f"job {job_id} has ranks 0 to 1, not 2" in done.stderr
    assert box.run("logs", "--rank", "last", job_id).returncode == 2


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Box]:
    """A cluster of the nodes a and b, with two GPUs each."""
    with serving(cluster(a="", b="")) as box:
        yield box


def test_a_gang_over_two_nodes_has_its_ranks_by_node_and_its_logs_there(two_nodes: Box) -> None:
    words = (
        "--gang",
        "2",
        "--spread",
        "--",
        "sh",
        "-c",
        "echo $RANK $LOCAL_RANK $NODE_RANK $CORRAL_NODE $CORRAL_NODES",
    )
    job_id = two_nodes.submit(*words)
    assert two_nodes.ended(job_id)["phase"] == "SUCCEEDED"
    assert sorted(written(two_nodes, job_id)) == ["[0] 0 0 0 a a,b", "[1] 1 0 1 b a,b"]


def test_a_member_that_fails_on_one_node_ends_the_gang_on_the_other(two_nodes: Box) -> None:
    job_id = two_nodes.submit("--gang", "2", "--spread", "--", "sh", "-c", "[ $RANK = 1 ] && exit 7; exec sleep 1000")
    row = two_nodes.ended(job_id)
    assert (row["exit_code"], row["reason"]) == (7, "rank 1 on b exited with 7")


def test_a_script_for_slurm_reaches_the_other_node(two_nodes: Box, tmp_path: Path) -> None:
    text = "#SBATCH --nodes=2 --ntasks-per-node=2 --gpus-per-node=2\nsrun sh -c 'echo $SLURM_PROCID $SLURM_NODEID'\n"
    job_id = two_nodes.submit(script(tmp_path, text))
    assert two_nodes.ended(job_id)["phase"] == "SUCCEEDED"
    assert sorted(two_nodes.ok("logs", job_id).splitlines()) == ["0 0", "1 0", "2 1", "3 1"]
