"""A GPU that falls sick while a job runs on it: the job goes on elsewhere, or is told, left, held, as it wants."""

import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.box import Box, described, uuid

MOVED_WITHIN_S = 5.0
SETTINGS = "kill_grace: 2s\nsample_interval: 0.5s\n"
TRAINS = ("--", "sh", "-c", "echo began; exec sleep 600")


def sick(count: int, *indices: int, fault: str = "lost = true") -> str:
    """A description of devices of which some have this fault."""
    parts = described(count).split("[[devices]]")
    return "[[devices]]".join(
        part + f"{fault}\n" if number - 1 in indices else part for number, part in enumerate(parts)
    )


@pytest.fixture
def box(new_box: Callable[[str], Box]) -> Box:
    box = new_box(described(2))
    (box.home / "config.yaml").write_text(SETTINGS)
    box.up()
    return box


def running(box: Box, *options: str) -> tuple[str, int]:
    """A job that runs, and the index of its GPU."""
    job = box.submit(*options, *TRAINS)
    box.until_phase(job, "RUNNING")
    return job, gpu_of(box.job(job))


def runs_off(box: Box, job: str, index: int) -> bool:
    row = box.job(job)
    return row["phase"] == "RUNNING" and gpu_of(row) != index


def gpu_of(row: dict[str, Any]) -> int:
    return next(index for index in range(4) if row["devices"] == [uuid(index)])


@pytest.mark.parametrize("fault", ["lost = true", "ecc_errors = 2", "temperature_c = 99"])
def test_a_job_of_a_sick_gpu_runs_elsewhere_within_seconds_and_uses_up_no_retry(box: Box, fault: str) -> None:
    job, first = running(box, "--retries", "1")
    box.describe(sick(2, first, fault=fault))
    began = time.monotonic()
    box.until(lambda: runs_off(box, job, first))
    took_s = time.monotonic() - began
    print(f"moved in {took_s:.2f} s")
    assert took_s < MOVED_WITHIN_S
    row = box.job(job)
    assert (row["site_faults"], row["evictions"], row["attempts"]) == (1, 0, 2)
    said = box.ok("logs", job)
    assert f"stopped: GPU {first} fell sick: " in said
    assert "it goes on elsewhere" in said
    assert "attempt 2 of 2 begins; it goes on after it was taken off a sick GPU" in said
    shown = box.ok("show", job)
    assert "moved off a sick GPU 1 time" in shown
    assert f"stopped: GPU {first} fell sick" in shown


def test_a_job_that_cannot_be_tried_again_is_left_and_its_user_is_told(box: Box) -> None:
    job, first = running(box)
    box.describe(sick(2, first))
    box.until(lambda: "it is left there until it ends" in box.ok("logs", job))
    assert box.job(job)["phase"] == "RUNNING"
    assert f"GPU {first} fell sick" in box.ok("why", job)
    assert f"GPU {first} fell sick" in box.ok("ps")


SAVES = """
import os, sys, time
from corral.checkpoint import CheckpointManager
manager = CheckpointManager()
state = manager.restore_checkpoint("work") or {"steps": 0}
print("goes on from step", state["steps"], flush=True)
manager.save_checkpoint("work", {"steps": state["steps"] + 7})
time.sleep(600)
"""


def test_after_xid_79_a_job_goes_on_elsewhere_from_its_checkpoint(box: Box) -> None:
    job = box.submit("--checkpoint-signal", "USR1@60s", "--", sys.executable, "-c", SAVES)
    box.until(lambda: "goes on from step 0" in box.ok("logs", job))
    first = gpu_of(box.job(job))
    box.describe(sick(2, first, fault="xid = 79"))
    box.until(lambda: "goes on from step 7" in box.ok("logs", job))
    assert gpu_of(box.job(job)) != first
    assert "Xid 79" in box.ok("logs", job)


def test_an_xid_that_blames_the_job_ends_it_with_that_reason_and_the_gpu_stays(box: Box) -> None:
    job, first = running(box)
    box.describe(sick(2, first, fault="xid = 31"))
    row = box.ended(job)
    assert row["phase"] == "FAILED"
    assert row["reason"].startswith(f"an error on GPU {first}: Xid 31")
    assert box.json("devices", "--json")[first]["health"] == "healthy"


def test_a_program_that_meets_the_fault_first_is_tried_again(box: Box) -> None:
    gate = box.home / "fault"
    dies = f"if [ -e {gate} ]; then sleep 600; fi; until [ -e {gate} ]; do sleep 0.05; done; exit 7"
    job = box.submit("--on-fault", "requeue", "--", "sh", "-c", dies)
    box.until_phase(job, "RUNNING")
    first = gpu_of(box.job(job))
    gate.touch()
    assert box.ended(job)["phase"] == "FAILED"
    box.describe(sick(2, first))
    box.until(lambda: runs_off(box, job, first))
    assert "requeued by corral:health-watch" in box.ok("show", job)


def test_a_job_that_waits_says_what_it_keeps_off_and_for_how_long(box: Box) -> None:
    job, first = running(box, "--on-fault", "requeue")
    other = box.submit(*TRAINS)
    box.until_phase(other, "RUNNING")
    box.describe(sick(2, first))
    box.until_phase(job, "PENDING")
    assert f"It keeps off GPU {first} for 6d 23h more" in box.ok("why", job)
    assert "GpuFault" in box.ok("ps")
    box.ok("release", job)
    assert "It keeps off" not in box.ok("why", job)


def test_a_job_under_which_two_gpus_fell_sick_is_held_until_an_administrator_releases_it(
    new_box: Callable[[str], Box],
) -> None:
    box = new_box(described(3))
    (box.home / "config.yaml").write_text(SETTINGS)
    box.up()
    job, first = running(box, "--on-fault", "requeue")
    box.describe(sick(3, first))
    box.until(lambda: runs_off(box, job, first))
    second = gpu_of(box.job(job))
    box.describe(sick(3, first, second))
    box.until(lambda: box.job(job)["held"] and box.job(job)["phase"] == "PENDING")
    assert "it is held because 2 GPUs fell sick while it ran there" in box.ok("why", job)
    box.ok("release", job)
    box.until_phase(job, "RUNNING")
