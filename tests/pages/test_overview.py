"""The overview says of each GPU who holds it, by which job, how much of it and since when."""

import subprocess
from collections.abc import Iterator
from getpass import getuser
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.box import Box, described, serving, until_there
from tests.pages.conftest import Visit, visiting


@pytest.fixture
def stranger() -> Iterator[int]:
    """The pid of a process that Corral did not start."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process.pid
        process.kill()


def test_each_gpu_shows_its_holders_and_what_part_they_have(visit: Visit, box: Box, tmp_path: Path) -> None:
    waits = ("--", "sh", "-c", until_there(tmp_path / "never"))
    whole = box.submit("--gpus", "1", "--name", "all-of-it", *waits)
    part = box.submit("--gpus", "0.25", "--name", "a-part", *waits)
    for job_id in (whole, part):
        box.until_phase(job_id, "RUNNING")
    page = visit.go("/")
    panel = page.get_by_role("region", name="Who holds what").first
    row = panel.get_by_role("row").filter(has=page.get_by_role("link", name=f"{whole} all-of-it"))
    expect(row).to_contain_text(getuser())
    expect(row).to_contain_text("whole")
    expect(row.locator("[title^=since]")).to_be_visible()
    expect(panel.get_by_role("row").filter(has_text="a-part")).to_contain_text("0.25, 20G")
    expect(panel.get_by_role("row").filter(has_text="free")).to_have_count(2)
    expect(panel).to_contain_text(f"GPUs by user: {getuser()} 1.25")
    row.get_by_role("link", name=f"{whole} all-of-it").click()
    page.wait_for_url(f"**/jobs/{whole}")
    assert visit.errors == []


def test_many_gpus_are_summed_by_user_and_strangers_are_named(chromium: Browser, stranger: int, tmp_path: Path) -> None:
    use = f'processes = [{{ pid = {stranger}, user = "mallory", memory = "1G" }}]\n'
    with serving(described(17) + use) as box, visiting(chromium, box) as visit:
        jobs = [box.submit("--gpus", "3", "--", "sh", "-c", until_there(tmp_path / "never")) for _ in range(5)]
        for job_id in jobs:
            box.until_phase(job_id, "RUNNING")
        page = visit.go("/")
        panel = page.get_by_role("region", name="Who holds what").first
        own = panel.get_by_role("row").filter(has_text=getuser())
        expect(own.get_by_role("cell").nth(1)).to_have_text("15")
        expect(own).to_contain_text("2 jobs more")
        expect(panel.get_by_role("row").filter(has_text="mallory")).to_contain_text("outside Corral")
        expect(panel.get_by_role("row")).to_have_count(3)
        assert visit.errors == []
