"""Packable jobs with the installed command: many share a GPU with their like, and fewer once they slow each other."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.core.model.runs.packing import LEAST_RUNS
from tests.e2e.box import SETTINGS, Box, described, serving, until_there

PACKED = "--packable", "--gpu-mem", "8G"


@pytest.fixture
def packing() -> Iterator[Box]:
    """A server on two GPUs, where four packable jobs may share one."""
    with serving(described(2), SETTINGS + "pack_jobs: 4\n") as box:
        yield box


def held(box: Box, job_id: str) -> tuple[str, int]:
    """The GPU of a job, and its milli-GPU of it."""
    (grant,) = box.job(job_id)["grants"]
    return grant["uuid"], grant["share_milli"]


def running(box: Box, count: int, *command: str) -> list[str]:
    ids = [box.submit(*PACKED, "--", *command) for _ in range(count)]
    for job_id in ids:
        box.until_phase(job_id, "RUNNING")
    return ids


def test_jobs_of_a_program_share_a_gpu_until_they_slow_each_other(packing: Box, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    program, another = ("sh", "-c", until_there(gate)), ("sh", "-c", f"true; {until_there(gate)}")
    gate.touch()
    for _ in range(LEAST_RUNS):
        packing.ended(packing.submit(*PACKED, "--", *program))
    for _ in range(3):
        gate.unlink()
        ids, (other,) = running(packing, 4, *program), running(packing, 1, *another)
        assert len({held(packing, one) for one in ids}) == 1
        assert held(packing, ids[0])[1] == 250
        assert held(packing, other)[0] != held(packing, ids[0])[0]
        assert "it shares its GPU with 3 more jobs of its program now" in packing.ok("show", ids[0])
        gate.touch()
        for one in (*ids, other):
            packing.ended(one)
    for _ in range(2):
        gate.unlink()
        (slow,) = running(packing, 1, *program)
        assert held(packing, slow)[1] > 250
        waits = packing.submit(*PACKED, "--begin", "now+1hours", "--", *program)
        assert "times as long as one alone, and this site allows 1.25" in packing.ok("why", waits)
        packing.ok("cancel", waits)
        gate.touch()
        packing.ended(slow)
        packing.down()
        packing.up()


def test_a_request_that_cannot_be_packed_is_refused_with_the_reason(packing: Box) -> None:
    for options, words in (
        (("--gpus", "2"), "have one GPU each, but this job asks for 2"),
        (("--gpus", "0.5"), "a fixed part of one; leave the part out, and say --gpu-mem"),
        (("--power-limit", "300"), "this job sets a power limit"),
        (("--share", "exclusive"), "this job asks for one alone"),
    ):
        refused = packing.run("submit", "--packable", *options, "--", "true")
        assert refused.returncode != 0
        assert words in refused.stderr


def test_a_job_whose_memory_nobody_knows_says_why_it_is_alone(packing: Box, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    ids = [packing.submit("--packable", "--", "sh", "-c", until_there(gate)) for _ in range(3)]
    for one in ids[:2]:
        packing.until_phase(one, "RUNNING")
    assert held(packing, ids[0])[0] != held(packing, ids[1])[0]
    assert "its GPU memory is not known: add --gpu-mem" in packing.ok("why", ids[2])
    gate.touch()
