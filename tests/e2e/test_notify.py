"""Commands that are run when jobs have ended, on a server and on a cluster of mock nodes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral.client import Client
from tests.e2e.box import Box, described, serving, until_there
from tests.engines.pool import cluster


@pytest.fixture(scope="module")
def _nodes() -> Iterator[Box]:
    with serving(cluster(a="", b="")) as box:
        yield box


@pytest.fixture
def nodes(_nodes: Box) -> Iterator[Box]:
    yield _nodes
    _nodes.clear()


def writes(file: Path) -> str:
    """A command that adds a line on the end of the job to a file."""
    told = "$CORRAL_JOB_ID $CORRAL_PHASE ${CORRAL_EXIT_CODE:-none} on $CORRAL_NODE"
    return f'echo "{told}" >> {file}'


def lines(box: Box, file: Path, count: int) -> list[str]:
    """The lines of the file, once there are so many."""
    box.until(lambda: file.exists() and len(file.read_text().splitlines()) >= count)
    return file.read_text().splitlines()


def test_a_gang_is_told_of_once_where_its_rank_0_ran(nodes: Box, tmp_path: Path) -> None:
    file = tmp_path / "told"
    job_id = nodes.submit(
        "--gang", "2", "--spread", "--notify", writes(file), "--", "sh", "-c", "exit $((3 * (1 - RANK)))"
    )
    nodes.ended(job_id)
    assert lines(nodes, file, 1) == [f"{job_id} FAILED 3 on a"]
    nodes.until(lambda: "corral: notify: done\n" in nodes.ok("logs", job_id))


def test_every_way_to_end_is_told_and_a_retry_is_not(nodes: Box, tmp_path: Path) -> None:
    file, script = tmp_path / "told", tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\n#CORRAL --gpus 0 --retries 1\n#CORRAL --notify '{writes(file)}'\nexit 5\n")
    failed = nodes.submit(str(script))
    late = nodes.submit("--gpus", "0", "--time", "0.2s", "--notify", writes(file), "--", "sleep", "60")
    never = nodes.submit("--hold", "--notify", writes(file), "--", "true")
    nodes.ok("cancel", never)
    with Client(nodes.home) as client:
        array = client.submit(["true"], gpus=0, array="0-4", notify=writes(file)).id
    told = {line.partition(" ")[0]: line.partition(" ")[2].split()[:2] for line in lines(nodes, file, 4)}
    assert told == {
        failed: ["FAILED", "5"],
        late: ["TIMED_OUT", "143"],
        never: ["CANCELLED", "none"],
        array: ["SUCCEEDED", "0"],
    }
    assert len(file.read_text().splitlines()) == 4


def test_a_job_that_ended_while_no_server_ran_is_told_of_and_once(
    new_box: Callable[[str], Box], tmp_path: Path
) -> None:
    file, gate = tmp_path / "told", tmp_path / "gate"
    box = new_box(described(1))
    box.up()
    ids = [box.submit("--notify", writes(file), "--gpus", "0", "--", "sh", "-c", until_there(gate)) for _ in range(3)]
    for job_id in ids:
        box.until_phase(job_id, "RUNNING")
    box.kill()
    gate.touch()
    for _ in range(2):
        box.up()
        assert sorted(line.split()[0] for line in lines(box, file, len(ids))) == ids
        box.kill()


def test_a_command_that_makes_no_sense_is_refused(nodes: Box) -> None:
    for command in ("", " ", "x" * 5000):
        done = nodes.run("submit", "--notify", command, "--", "true")
        assert (done.returncode, "notify" in done.stderr) == (2, True), done
