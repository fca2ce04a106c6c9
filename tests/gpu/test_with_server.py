"""The library beside a real server on described devices: it sees what the server sees, and takes through it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.core.model.errors import Refused
from corral.gpu import GPUMonitor, LeaseTimedOut, check_gpu_availability, lease, select_gpus_for_task
from tests.e2e.box import PATIENCE_S, Box, described, serving, uuid


@pytest.fixture(scope="module")
def running_box() -> Iterator[Box]:
    with serving(described(3)) as box:
        yield box


@pytest.fixture
def box(running_box: Box, monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    monkeypatch.setenv("CORRAL_HOME", str(running_box.home))
    yield running_box
    running_box.clear()


def pidfds(box: Box) -> int:
    """How many processes the server watches by a descriptor."""
    links = Path(f"/proc/{(box.home / 'corral.pid').read_text().split()[0]}/fd")
    return sum("pidfd" in _target(link) for link in links.iterdir())


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except FileNotFoundError:
        return ""


def test_the_servers_devices_are_seen_under_its_indices(box: Box) -> None:
    snapshot = GPUMonitor().query_gpus()
    assert snapshot is not None
    assert [(gpu.index, gpu.uuid) for gpu in snapshot.gpus] == [(i, uuid(i)) for i in range(3)]
    assert {gpu.memory_total_mb for gpu in snapshot.gpus} == {81920}


def test_what_a_job_holds_is_not_available(box: Box) -> None:
    job = box.submit("--device", uuid(1), "--", "sleep", "60")
    box.until(lambda: 1 not in GPUMonitor().get_available_gpus(max_utilization=100))
    available, message = check_gpu_availability(3)
    assert not available
    assert f"GPU 1: allocated to job {job} of " in message


def test_a_job_may_use_what_it_holds_itself(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    job = box.submit("--device", uuid(1), "--", "sleep", "60")
    box.until(lambda: 1 not in GPUMonitor().get_available_gpus(max_utilization=100))
    monkeypatch.setenv("CORRAL_JOB_ID", job)
    assert 1 in GPUMonitor().get_available_gpus(max_utilization=100)


def test_what_is_cordoned_is_not_selected(box: Box) -> None:
    box.ok("cordon", "0", "--reason", "fan")
    try:
        assert sorted(select_gpus_for_task(2)) == [1, 2]
        with pytest.raises(RuntimeError, match="GPU 0: cordoned: fan"):
            select_gpus_for_task(3)
    finally:
        box.ok("uncordon", "0")


def test_a_lease_is_a_reservation_that_ends_with_it(box: Box) -> None:
    with lease(gpus=2, name="notebook") as held:
        (row,) = box.json("ps", "--json")
        assert (row["id"], row["name"], row["devices"]) == (held.job_id, "notebook", list(held.uuids))
        assert len(held.indices) == 2
    (row,) = (row for row in box.json("ps", "--all", "--json") if row["id"] == held.job_id)
    assert (row["phase"], row["reason"]) == ("SUCCEEDED", f"released by {row['user']}")


def test_what_a_lease_held_is_free_once_it_is_released_and_the_server_watches_nobody_any_more(box: Box) -> None:
    watched = pidfds(box)
    for _ in range(8):
        with lease(gpus=3):
            assert GPUMonitor().get_available_gpus(max_utilization=100) == []
        assert not any(device["holders"] for device in box.json("status", "--json"))
    box.until(lambda: pidfds(box) <= watched)


def test_a_lease_that_waits_too_long_says_what_for_and_leaves_nothing_behind(box: Box) -> None:
    box.submit("--gpus", "3", "--", "sleep", "60")

    def refused() -> str:
        with pytest.raises(LeaseTimedOut, match="could not be leased in time: ") as late:
            lease(timeout_seconds=0.2)
        return str(late.value)

    box.until(lambda: "needs 1 GPU" in refused())
    box.until(lambda: len(box.json("ps", "--json")) == 1)


def test_a_lease_waits_for_its_turn(box: Box) -> None:
    box.submit("--gpus", "3", "--", "sleep", "0.3")
    with lease(gpus=3, timeout_seconds=PATIENCE_S) as held:
        assert len(held.uuids) == 3


def test_more_than_the_server_has_is_refused(box: Box) -> None:
    with pytest.raises(Refused, match="the most you can ask for is 3 GPUs"):
        lease(gpus=4)


def test_a_process_that_dies_with_a_lease_gives_it_back(box: Box) -> None:
    script = "from corral import gpu; held = gpu.lease(gpus=3); print('held', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], env=box.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        process.kill()
        with lease(gpus=3, timeout_seconds=PATIENCE_S) as held:
            assert len(held.uuids) == 3
