"""A ledger that was restored from an older copy: nobody's job gets the id, the log or the history of a lost one."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.client import Client
from tests.e2e.box import PATIENCE_S, Box, described
from tests.e2e.test_users import ONE, OTHER, as_user

NODE = """
[[nodes]]
name = "{name}"
[[nodes.devices]]
mother_uuid = "GPU-{name}"
model_name = "Mock"
memory_size = "8G"
"""
CLUSTER = "".join(NODE.format(name=name) for name in "ab")


def says(word: str, count: int) -> Callable[[Client], list[str]]:
    """Submit so many jobs that print a word; their ids once all have ended."""

    def ask(client: Client) -> list[str]:
        jobs = [client.submit(["/bin/echo", word], workdir="/") for _ in range(count)]
        client.wait([job.id for job in jobs], PATIENCE_S)
        return [job.id for job in jobs]

    return ask


def logs_of(job_ids: list[str]) -> Callable[[Client], list[str]]:
    return lambda client: ["".join(client.jobs.logs(job_id)) for job_id in job_ids]


def copy_ledger(box: Box, to: Path) -> None:
    """Between two servers: the copy has reserved no number ahead, so that it would give the next ones again."""
    box.down()
    shutil.copy(box.home / "ledger.db", to)
    box.up()


def restore(box: Box, copy: Path) -> None:
    """As docs/install.md says."""
    for ending in ("-wal", "-shm"):
        (box.home / f"ledger.db{ending}").unlink(missing_ok=True)
    shutil.copy(copy, box.home / "ledger.db")


def numbers(job_ids: list[str]) -> list[int]:
    return [int(job_id.partition("_")[0]) for job_id in job_ids]


@pytest.fixture
def copied(new_box: Callable[[str], Box]) -> Box:
    box = new_box(described(2))
    box.home.chmod(0o755)
    box.up()
    return box


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may act as two other users")
@pytest.mark.parametrize("devices", [described(2), CLUSTER], ids=["one machine", "two nodes"])
def test_no_job_after_a_restore_shows_what_a_lost_one_has_written(
    new_box: Callable[[str], Box], tmp_path: Path, devices: str
) -> None:
    box = new_box(devices)
    box.home.chmod(0o755)
    box.up()
    as_user(ONE, box, says("before", 2))
    copy_ledger(box, tmp_path / "copy.db")
    lost = as_user(ONE, box, says("secret", 4))
    box.down()
    restore(box, tmp_path / "copy.db")
    box.up()
    new = as_user(OTHER, box, says("mine", 4))
    assert min(numbers(new)) > max(numbers(lost))
    assert set(as_user(OTHER, box, logs_of(new))) == {"mine\n"}


def test_a_lost_job_that_still_runs_is_ended_and_its_number_given_to_nobody(copied: Box, tmp_path: Path) -> None:
    copy_ledger(copied, tmp_path / "copy.db")
    lost = [copied.submit("--gpus", "0", "--", "sleep", "1000") for _ in range(2)]
    for job_id in lost:
        copied.until_phase(job_id, "RUNNING")
    copied.down()
    restore(copied, tmp_path / "copy.db")
    for name in ("logs", "scratch"):
        shutil.rmtree(copied.home / name)
    copied.up()
    assert min(numbers([copied.submit("--gpus", "0", "--", "true")])) > max(numbers(lost))
    launches = copied.home / "launches"
    copied.until(lambda: not any((launches / f"{job_id}.1").exists() for job_id in lost))


@pytest.mark.parametrize("left", ["logs", "scratch", "launches", "claims", "nodes/a/logs", "notifications"])
def test_whatever_knows_a_number_keeps_it_from_being_given_again(copied: Box, left: str) -> None:
    copied.down()
    if left == "claims":
        (copied.home / left).write_text("\n900.1\n")
    else:
        (copied.home / left / "900_2.1-3").mkdir(parents=True)
    copied.up()
    assert numbers([copied.submit("--", "true")]) == [901]


def test_an_orderly_restart_skips_no_number(copied: Box) -> None:
    (first,) = numbers([copied.submit("--", "true")])
    copied.ended(str(first))
    copied.down()
    copied.up()
    assert numbers([copied.submit("--", "true")]) == [first + 1]
