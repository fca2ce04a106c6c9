"""The autotuner's pages as people use them: a task is written, watched, looked into, and ended."""

import csv
import os
import pwd
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from corral.client import Client
from corral.core.ports.monitoring import MonitoredDevice
from corral.features.history.recording.series import SERIES, DeviceReadings
from corral.features.tuner.measuring.gpu_records import course_of, figures_of_gpus, gpus_of_level, windows_of
from tests.e2e.box import Box, described, serving
from tests.pages.conftest import Visit, visiting
from tests.pages.forwarded import forwarded
from tests.pages.test_every_page import HOSTILE, what_is_wrong

TASK: dict[str, Any] = {
    "task_name": HOSTILE,
    "model": {"id_or_path": "toy"},
    "base_runtime": "stand-in",
    "parameters": {"max-num-seqs": [1, 8], "tp": [1, 2]},
    "optimization": {"objective": "maximize_throughput"},
    "benchmark": {
        "num_concurrency": [2, 4],
        "traffic_scenarios": ["D(20,5)"],
        "max_time_per_iteration": 0.01,
        "max_requests_per_iteration": 20,
    },
    "max_parallel": 2,
}
ENDLESS = {**TASK["benchmark"], "max_requests_per_iteration": 1_000_000, "max_time_per_iteration": 60}
NOBODY = pwd.getpwuid(65534)


@pytest.fixture(scope="module")
def site() -> Iterator[Box]:
    with serving(described(2)) as box:
        yield box


@pytest.fixture(scope="module")
def found(site: Box) -> str:
    """A task that is completed: four combinations and repeats, each measured at two levels, and a name of markup."""
    with Client(site.home) as client:
        task_id = client.tasks.create(TASK).id
        client.tasks.start(task_id)
        site.until(lambda: client.tasks.get(task_id).task.status == "completed")
    return task_id


@pytest.fixture(scope="module")
def _shared_visit(chromium: Browser, site: Box) -> Iterator[Visit]:
    with visiting(chromium, site) as visit:
        yield visit


@pytest.fixture
def visit(_shared_visit: Visit) -> Visit:
    _shared_visit.leave()
    return _shared_visit


def test_a_task_is_written_in_a_form_watched_and_cancelled_also_where_the_server_is_killed(
    visit: Visit, site: Box
) -> None:
    page = visit.go("/tasks/new")
    page.get_by_label("Model", exact=True).fill("in-a-form")
    page.get_by_label("Parameters", exact=True).fill("max-num-seqs=4,8")
    page.get_by_label("Inference server").fill("nothing")
    expect(page.get_by_label("Inference server")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("alert")).to_contain_text("'nothing' is not known")
    page.get_by_label("Inference server").fill("stand-in")
    page.get_by_label("Minutes a level").fill("60")
    page.get_by_label("Requests a level").fill("1000000")
    expect(page.get_by_text("at most, of 2 combinations")).to_be_visible()
    expect(page.locator(".figure").filter(has_text="GPU-hours")).to_contain_text("12")
    page.get_by_role("button", name="Create and start").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("in-a-form")
    row = page.get_by_label("Experiments", exact=True).get_by_role("row").nth(1)
    expect(row).to_contain_text("benchmarking")
    visit.errors.clear()
    site.kill()
    expect(page.get_by_text("The connection to the server is lost")).to_be_visible()
    site.up()
    expect(page.get_by_text("The connection to the server is lost")).to_have_count(0)
    expect(row).to_contain_text("benchmarking")
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel the task").click()
    expect(page.locator(".figure").filter(has_text="Status")).to_contain_text("cancelled")
    expect(row).to_contain_text("failed")
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Delete the task").click()
    page.wait_for_url("**/tasks")
    expect(page.get_by_text("in-a-form")).to_have_count(0)


def test_the_form_of_a_task_asks_for_gpus_as_its_file_does(visit: Visit, site: Box) -> None:
    page = visit.go("/tasks/new")
    page.get_by_label("Model", exact=True).fill("on-chosen-gpus")
    page.get_by_label("Parameters", exact=True).fill("max-num-seqs=4,8")
    page.get_by_label("Inference server").fill("stand-in")
    page.get_by_label("GPU memory at least").fill("much")
    expect(page.get_by_label("GPU memory at least")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("GPU memory at least").fill("10G")
    page.get_by_label("GPU model").fill("A100, H100")
    page.get_by_label("Nodes", exact=True).fill("gpu-[01-03,07]")
    page.get_by_label("Node labels", exact=True).fill("zone=a, rack=3")
    page.get_by_label("Preferred node labels").fill("zone=b")
    page.get_by_label("Whole nodes").select_option("yes")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("on-chosen-gpus")
    with Client(site.home) as client:
        config = client.tasks.get(page.url.rpartition("/")[2]).config
    assert (config.gpu_model, config.node, config.device) == (("A100, H100",), ("gpu-[01-03,07]",), ())
    assert (config.min_memory, config.exclusive) == ("10G", True)
    assert (config.label, config.prefer) == ({"zone": "a", "rack": "3"}, {"zone": "b"})


def test_what_was_found_is_shown_compared_and_taken_elsewhere(visit: Visit, site: Box, found: str) -> None:
    page = visit.go(f"/tasks/{found}")
    for chart in ("Tokens/s per GPU of each experiment over time", "Tokens/s per GPU against latency", "Parallel"):
        expect(page.get_by_role("img", name=chart)).to_be_visible()
    expect(page.get_by_role("region", name="Found")).to_contain_text("tokens/s per GPU")
    importance = page.get_by_role("region", name="Each parameter").get_by_role("row")
    expect(importance.filter(has_text="max-num-seqs")).to_contain_text("%")
    table = page.get_by_label("Experiments", exact=True)
    # A repeat has the same parameters.
    expect(table.get_by_role("row").filter(has_text="max-num-seqs 8, tp 2").first).to_contain_text("2 (Mock)")
    expect(table.get_by_role("row").filter(has_text="best")).to_have_count(1)
    with page.expect_download() as download:
        page.get_by_role("link", name="All experiments, CSV").click()
    lines = list(csv.DictReader(StringIO(download.value.path().read_text())))
    rows = [(line["status"], line["tp"]) for line in lines]
    assert rows[:4] == [("success", tp) for tp in "1212"]
    assert {status for status, _ in rows[4:]} == {"success"}
    page.get_by_label("Choose experiment 1", exact=True).check()
    page.get_by_label("Choose experiment 4").check()
    page.get_by_role("button", name="Compare", exact=True).click()
    both = page.get_by_label("Both experiments")
    expect(both.get_by_role("row").filter(has_text="max-num-seqs")).to_contain_text("differs")
    compared = page.url.removeprefix(visit.base)
    page.get_by_role("link", name="Experiment 4").click()
    expect(page.get_by_role("img", name="Latency by load of experiment 4")).to_be_visible()
    expect(page.get_by_role("region", name="Deployment").get_by_role("link")).to_contain_text("exp4")
    paths = (f"/tasks/{found}", page.url.removeprefix(visit.base), compared)
    wrong: list[object] = [(path, each) for path in paths for each in what_is_wrong(visit, path)]
    assert wrong + visit.errors == []
    page.set_viewport_size({"width": 1280, "height": 800})


def test_experiments_are_seen_as_they_come(visit: Visit, site: Box) -> None:
    page = visit.go("/tasks")
    with Client(site.home) as client:
        task_id = client.tasks.create({**TASK, "task_name": "live", "parameters": {"chunk-size": ["many"]}}).id
        row = page.get_by_role("row").filter(has_text="live")
        expect(row).to_contain_text("pending")
        row.get_by_role("link").click()
        page.get_by_role("button", name="Start").click()
        expect(page.get_by_label("Experiments", exact=True).get_by_role("row").nth(1)).to_contain_text("failed")
        expect(page.get_by_role("alert")).to_contain_text("invalid int value: 'many'")
        page.get_by_role("button", name="Clear", exact=True).click()
        page.get_by_role("button", name="Clear the task").click()
        expect(page.get_by_text("No experiments yet")).to_be_visible()
        assert visit.errors == []
        client.tasks.delete(task_id)


def test_gpus_that_the_tuner_has_read_itself_have_a_table_and_charts(visit: Visit, site: Box) -> None:
    gpu = MonitoredDevice(HOSTILE, "NVIDIA-H100-80GB-HBM3", 80_000)
    window = (1_700_000_000.0, 1_700_000_060.0)
    values = {"utilization_pct": 93.0, "memory_used_mib": 40_000.0, "power_w": 311.0}
    readings = [
        DeviceReadings(window[0] + at, 5.0, tuple(values.get(name) for name in SERIES)) for at in range(5, 61, 5)
    ]
    read = {gpu: readings}
    level = {"stats": {}, **gpus_of_level(60.0, windows_of(read, window)), **course_of(read, window)}
    with Client(site.home) as client:
        task_id = client.tasks.create({**TASK, "task_name": "service", "benchmark": ENDLESS}).id
        client.tasks.start(task_id)
        row = site.until(lambda: next(iter(client.experiments.list(task_id)), None))
        info = {"model": "NVIDIA-H100-80GB-HBM3", "count": 1}
        metrics = {"raw_results": [level], **figures_of_gpus([level])}
        site.until(lambda: client.experiments.get(row.id).status == "benchmarking")
        client.experiments.change(row.id, metrics=metrics, gpu_info=info)
        page = visit.go(f"/experiments/{row.id}")
        expect(page.get_by_label("Each GPU").get_by_role("row").nth(1)).to_contain_text("93 %")
        for chart in ("GPU Utilization (%)", "Memory Usage (%)", "Power Draw (W)"):
            expect(page.get_by_role("img", name=f"{chart} of experiment 1 over time")).to_be_visible()
        expect(page.get_by_label("Power Draw (W) of experiment 1 over time, in words")).to_contain_text("mean 311.0 W")
        wrong = what_is_wrong(visit, f"/experiments/{row.id}")
        page.set_viewport_size({"width": 1280, "height": 800})
        assert wrong + visit.errors == []
        client.tasks.cancel(task_id)
        site.until(lambda: client.experiments.get(row.id).status == "failed")


@pytest.mark.skipif(os.geteuid() != 0, reason="only a server of root's has tokens of other users")
def test_others_look_at_a_task_and_change_nothing(chromium: Browser, site: Box, found: str) -> None:
    token = site.json("token", "create", "--user", NOBODY.pw_name, "--json")["token"]
    with visiting(chromium, site) as visit, forwarded(NOBODY.pw_uid, visit.base) as address:
        visit.sign_in_again(token, address)
        expect(visit.page.get_by_text(NOBODY.pw_name, exact=True)).to_be_visible()
        page = visit.go(f"/tasks/{found}")
        expect(page.get_by_role("region", name="Found")).to_be_visible()
        for name in ("Restart", "Clear", "Delete"):
            expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
