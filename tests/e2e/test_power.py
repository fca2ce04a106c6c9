"""Power limits of jobs and a site's power budget, with the installed command on described GPUs."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.box import Box, described, serving, until_there, uuid

POWER = "power_limit_w = 400\nmin_power_limit_w = 100\nmax_power_limit_w = 400"
POWERED = described(2, extra=POWER)


@pytest.fixture(scope="module")
def _powered() -> Iterator[Box]:
    with serving(POWERED) as box:
        yield box


@pytest.fixture
def powered(_powered: Box) -> Iterator[Box]:
    yield _powered
    _powered.clear()


def set_limits(box: Box) -> dict[int, int]:
    """What the mock driver was told, in watts: by the index of the GPU."""
    try:
        limits = json.loads((box.home / "mock-power-limits.json").read_text())
    except FileNotFoundError:
        return {}
    return {index: limits[uuid(index)] // 1000 for index in range(2) if uuid(index) in limits}


def changed(box: Box) -> list[Path]:
    """The records of GPUs whose limit a job has changed."""
    return list((box.home / "power-limits").glob("*.json"))


def test_a_job_runs_with_its_limit_and_leaves_the_gpu_as_it_was(powered: Box, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job_id = powered.submit("--power-limit", "250", "--", "sh", "-c", until_there(gate))
    powered.until_phase(job_id, "RUNNING")
    (index,) = (index for index, limit_w in set_limits(powered).items() if limit_w == 250)
    device = powered.json("devices", "--json")[index]
    assert (device["power_limit_w"], device["job_power_limit_w"]) == (400, 250)
    assert (device["least_power_limit_w"], device["most_power_limit_w"]) == (100, 400)
    assert "1 GPU limited to 250 W" in powered.ok("show", job_id)
    gate.touch()
    assert powered.ended(job_id)["phase"] == "SUCCEEDED"
    powered.until(lambda: set_limits(powered)[index] == 400 and not changed(powered))


def test_what_no_gpu_takes_is_refused_with_what_they_take(powered: Box) -> None:
    for options, words in (
        (("--power-limit", "50"), "no GPU here takes a power limit of 50 W; ask for 100 to 400 W"),
        (("--power-limit", "300", "--gpus", "0.5"), "a power limit is for a whole GPU"),
        (("--power-limit", "300", "--gpus", "0"), "a power limit is for a whole GPU"),
    ):
        refused = powered.run("submit", *options, "--", "true")
        assert refused.returncode != 0
        assert words in refused.stderr


def test_a_limit_that_the_driver_refuses_lets_the_job_wait_and_changes_no_gpu(new_box: Callable[[str], Box]) -> None:
    box = new_box(described(2, extra=f'{POWER}\npower_refused = "Insufficient Permissions"'))
    box.up()
    job_id = box.submit("--power-limit", "250", "--", "true")
    # Between two tries it is told of the next one alone.
    refusal = re.compile("refuses a power limit of 250 W.*Insufficient Permissions", re.DOTALL)
    box.until(lambda: refusal.search(box.ok("why", job_id)))
    assert (set_limits(box), changed(box)) == ({}, [])
    box.describe(POWERED)
    assert box.ended(job_id)["phase"] == "SUCCEEDED"


def test_a_limit_is_undone_after_a_crash_of_the_server_during_which_the_job_ended(
    new_box: Callable[[str], Box], tmp_path: Path
) -> None:
    box, gate = new_box(POWERED), tmp_path / "gate"
    box.up()
    job_id = box.submit("--power-limit", "250", "--", "sh", "-c", until_there(gate))
    box.until_phase(job_id, "RUNNING")
    assert 250 in set_limits(box).values()
    box.kill()
    gate.touch()
    box.up()
    assert box.ended(job_id)["phase"] == "SUCCEEDED"
    box.until(lambda: 250 not in set_limits(box).values() and not changed(box))


def test_a_budget_holds_starts_and_says_so(new_box: Callable[[str], Box], tmp_path: Path) -> None:
    box, gate = new_box(POWERED), tmp_path / "gate"
    (box.home / "config.yaml").write_text("power_budget_w: 600\n")
    box.up()
    first = box.submit("--", "sh", "-c", until_there(gate))
    box.until_phase(first, "RUNNING")
    second = box.submit("--", "true")
    box.until(lambda: "add up to 400 W of the site's power budget of 600 W" in box.ok("why", second))
    assert "PowerBudget" in box.ok("ps")
    assert "power budget: the limits of GPUs with jobs add up to 400 of 600 W" in box.ok("status")
    third = box.submit("--power-limit", "200", "--priority", "1", "--", "true")
    assert box.ended(third)["phase"] == "SUCCEEDED"
    gate.touch()
    assert box.ended(second)["phase"] == "SUCCEEDED"
    refused = box.run("submit", "--gpus", "2", "--", "true")
    assert "add up to at least 800 W, and the power budget of this site is 600 W" in refused.stderr
