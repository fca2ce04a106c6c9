"""Who fails is told why, at the end of the log and by `corral why`: over real processes, also of gangs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.box import Box, serving
from tests.engines.pool import cluster

OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 80.00 GiB "
    "of which 1.10 GiB is free. Including non-PyTorch memory, this process has 78.90 GiB memory in use."
)
TOLD = "out of GPU memory: tried 2.5G with 1.1G free of 80G; "


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """What a program wrote that ran out of memory."""
    path = tmp_path / "written"
    path.write_text(f"epoch 1\n{OUT_OF_MEMORY}\n")
    return path


def last_line(box: Box, job_id: str) -> str:
    return (box.ok("logs", job_id).splitlines() or [""])[-1]


def test_a_job_that_runs_out_of_gpu_memory_is_told_so(box: Box, text: Path) -> None:
    job_id = box.submit("--", "sh", "-c", f"cat {text}; exit 1")
    assert box.ended(job_id)["phase"] == "FAILED"
    noted = f"corral: attempt 1 failed with exit code 1: {TOLD}"
    box.until(lambda: last_line(box, job_id).startswith(noted))
    assert TOLD in box.ok("why", job_id)
    assert box.json("why", "--json", job_id)["diagnosis"].startswith(TOLD)
    assert box.ok("ps", "--all", "--no-header", "--columns", "id,where").splitlines()[-1].split(maxsplit=1) == [
        job_id, "out of GPU memory"
    ]  # fmt: skip
    done = box.run("run", "--", "sh", "-c", f"cat {text}; exit 1")
    assert (done.returncode, (done.stdout + done.stderr).count(TOLD)) == (1, 1)


def test_a_crash_is_told_once(box: Box) -> None:
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    for options, times in (((), 1), (("--retries", "1"), 2)):
        done = box.run("run", *options, "--", "python3", "-c", crash)
        told = done.stdout + done.stderr
        assert done.returncode == 139
        assert told.count("(SIGSEGV: it read or wrote memory that is not its own)") == times, told
        assert told.count("mostly a compiled library") == times, told
    done = box.run("run", "--force", "--", "./nosuch")
    assert (done.returncode, (done.stdout + done.stderr).count("no such file")) == (127, 1)


def test_a_job_that_succeeds_is_told_nothing_whatever_it_wrote(box: Box, text: Path) -> None:
    job_id = box.submit("--", "cat", str(text))
    assert box.ended(job_id)["phase"] == "SUCCEEDED"
    assert box.json("why", "--json", job_id)["diagnosis"] is None
    assert last_line(box, job_id) == OUT_OF_MEMORY


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Box]:
    """A cluster of the nodes a and b, with two GPUs each."""
    with serving(cluster(a="", b="")) as box:
        yield box


def test_of_a_gang_over_two_nodes_the_rank_is_named_that_failed(two_nodes: Box, text: Path) -> None:
    fails = f"[ $RANK = 2 ] && cat {text} && exit 3; exec sleep 1000"
    job_id = two_nodes.submit("--gang", "3", "--", "sh", "-c", fails)
    assert two_nodes.ended(job_id)["exit_code"] == 3
    noted = f"corral: attempt 1 failed with exit code 3: rank 2: {TOLD}"
    two_nodes.until(lambda: last_line(two_nodes, job_id).startswith(noted))
    assert f"rank 2: {TOLD}" in two_nodes.ok("why", job_id)
