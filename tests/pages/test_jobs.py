"""The pages of jobs as people use them: a form, a queue, a job."""

from contextlib import suppress
from pathlib import Path

from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.e2e.box import Box, until_there
from tests.pages.conftest import Visit, visiting


def _tab_to(page: Page, role: str, name: str) -> None:
    """Go on with the Tab key until the focus is there."""
    wanted = page.get_by_role(role, name=name, exact=True)  # type: ignore[arg-type]
    for _ in range(60):
        if wanted.count() and wanted.evaluate("at => at === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"the Tab key never reaches {name!r}")


def test_a_job_is_submitted_and_cancelled_with_the_keyboard_alone(visit: Visit, box: Box) -> None:
    page = visit.go("/submit")
    _tab_to(page, "textbox", "Command")
    page.keyboard.type("sleep 600")
    _tab_to(page, "textbox", "GPUs")
    page.keyboard.type("2")
    expect(page.get_by_text("starts now")).to_be_visible()
    expect(page.get_by_text("corral submit --gpus 2 -- sleep 600")).to_be_visible()
    _tab_to(page, "button", "Submit")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/*")
    _tab_to(page, "button", "Cancel")
    page.keyboard.press("Enter")
    _tab_to(page, "button", "Cancel the job")
    page.keyboard.press("Enter")
    job_id = page.url.rsplit("/", 1)[1]
    assert box.ended(job_id)["phase"] == "CANCELLED"
    expect(page.get_by_text("cancelled").first).to_be_visible()
    assert visit.errors == []


def test_what_the_server_refuses_stands_beside_its_field(visit: Visit) -> None:
    page = visit.go("/submit")
    page.get_by_label("Command", exact=True).fill("sleep 1")
    page.get_by_label("Queue", exact=True).fill("nowhere")
    queue = page.get_by_label("Queue", exact=True)
    expect(queue).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("alert")).to_contain_text("there is no queue")
    queue.fill("")
    page.get_by_label("GPUs", exact=True).fill("5")
    expect(page.get_by_text("cannot run here")).to_be_visible()


def test_two_tabs_cancel_the_same_job(chromium: Browser, box: Box, tmp_path: Path) -> None:
    job_id = box.submit("--gpus", "1", "--", "sh", "-c", until_there(tmp_path / "never"))
    with visiting(chromium, box) as one, visiting(chromium, box) as other:
        pages = [each.go(f"/jobs/{job_id}") for each in (one, other)]
        for page in pages:
            page.get_by_role("button", name="Cancel", exact=True).click()
        pages[0].get_by_role("button", name="Cancel the job").click()
        second = pages[1].get_by_role("button", name="Cancel the job")
        # The question goes away by itself once the other tab's answer is told, which may be at any moment.
        with suppress(PlaywrightTimeout):
            second.dispatch_event("click", timeout=1_000)
        for page in pages:
            expect(page.get_by_text("cancelled").first).to_be_visible()
            expect(page.get_by_role("alertdialog")).to_have_count(0)
            expect(page.get_by_role("button", name="Cancel", exact=True)).to_have_count(0)
    assert box.ended(job_id)["phase"] == "CANCELLED"


def test_chosen_jobs_are_held_together_after_a_question(visit: Visit, box: Box, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    box.submit("--gpus", "4", "--name", "first", "--", "sh", "-c", until_there(gate))
    waiting = [box.submit("--gpus", "4", "--name", f"waits-{at}", "--", "true") for at in range(2)]
    page = visit.go("/queue?timeline=1h")
    for job_id in waiting:
        page.get_by_label(f"Choose job {job_id}").check()
    page.get_by_role("button", name="Hold", exact=True).click()
    page.get_by_role("button", name="Hold 2 jobs").click()
    expect(page.get_by_text("2 jobs on hold")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="waits-1")).to_contain_text("on hold")
    page.get_by_text("As a table").click()
    table = page.get_by_label("The timeline as a table")
    expect(table.get_by_role("row").filter(has_text="first")).to_have_count(4)
    assert visit.errors == []


def test_an_array_is_one_row_that_opens_with_the_keyboard_and_is_held_whole_or_in_part(visit: Visit, box: Box) -> None:
    array = box.submit("--gpus", "4", "--array", "0-49", "--name", "sweep", "--", "sleep", "600")
    box.until_phase(f"{array}_0", "RUNNING")
    page = visit.go("/queue")
    row = page.get_by_role("row").filter(has_text="50 jobs")
    expect(row).to_contain_text("1 running")
    expect(row).to_contain_text("49 pending")
    opens = page.get_by_role("button", name=f"array {array} sweep, 50 elements")
    expect(opens).to_have_attribute("aria-expanded", "false")
    expect(page.get_by_role("row")).to_have_count(2)
    _tab_to(page, "button", f"array {array} sweep, 50 elements")
    page.keyboard.press("Enter")
    expect(opens).to_have_attribute("aria-expanded", "true")
    expect(page.get_by_role("row")).to_have_count(52)
    for index in (8, 9):
        page.get_by_label(f"Choose job {array}_{index}", exact=True).check()
    whole = page.get_by_label(f"Choose all of array {array}")
    assert whole.evaluate("box => box.indeterminate")
    page.get_by_role("button", name="Hold", exact=True).click()
    page.get_by_role("button", name="Hold 2 jobs").click()
    expect(page.get_by_text("2 jobs on hold")).to_be_visible()
    assert [box.job(f"{array}_{index}")["held"] for index in (7, 8, 9)] == [False, True, True]
    page.keyboard.press("Escape")
    opens.click()
    expect(page.get_by_role("row")).to_have_count(2)
    whole.check()
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel 50 jobs").click()
    expect(page.get_by_text("50 jobs cancelled")).to_be_visible()
    assert visit.errors == []


def test_a_job_shows_what_was_measured_of_each_of_its_gpus(visit: Visit, box: Box, tmp_path: Path) -> None:
    job_id = box.submit("--gpus", "2", "--", "sh", "-c", until_there(tmp_path / "never"))
    box.until_phase(job_id, "RUNNING")
    index = {device["uuid"]: device["index"] for device in box.json("devices", "--json")}
    labels = [index[uuid] for uuid in box.job(job_id)["devices"]]
    page = visit.go(f"/jobs/{job_id}")
    for title in ("GPU Utilization (%)", "Memory Usage (%)", "Temperature (°C)", "Power Draw (W)"):
        figure = page.get_by_role("figure", name=title)
        lines = figure.get_by_role("list", name=f"{title} of job {job_id} over time, in words").get_by_role("listitem")
        expect(lines).to_have_count(2)
        for at, label in enumerate(labels):
            expect(lines.nth(at)).to_contain_text(f"GPU {label}: Mock A100: mean")
    columns = page.get_by_role("region", name="Each GPU").get_by_role("columnheader")
    assert columns.all_inner_texts() == ["GPU ID", "Model", "Utilization", "Memory", "Temperature", "Power"]
    page.get_by_role("button", name="Change").click()
    page.get_by_label("Time limit").fill("90m")
    page.get_by_role("button", name="Change it").click()
    expect(page.get_by_text("of 1h 30m")).to_be_visible()


def test_a_search_that_finds_ten_thousand_places_in_a_line_breaks_nothing(
    visit: Visit, box: Box, tmp_path: Path
) -> None:
    script = f"python3 -c \"print('y' * 10000)\"; {until_there(tmp_path / 'never')}"
    job_id = box.submit("--", "sh", "-c", script)
    page = visit.go(f"/jobs/{job_id}")
    expect(page.get_by_role("log")).to_contain_text("yyy")
    page.get_by_label("Find in the log").fill("y")
    expect(page.get_by_text("1 of 1")).to_be_visible()
    expect(page.get_by_role("log").locator("mark").first).to_be_visible()
    assert visit.errors == []


def test_a_job_that_has_ended_says_how_and_leads_to_its_gpu_and_the_jobs_of_its_queue(visit: Visit, box: Box) -> None:
    job_id = box.submit("--gpus", "1", "--name", "brief", "--", "false")
    box.ended(job_id)
    page = visit.go(f"/jobs/{job_id}")
    expect(page.get_by_role("region", name="How it ended")).to_contain_text("brief failed with exit code 1")
    (uuid,) = box.job(job_id)["devices"]
    device = page.get_by_role("region", name="Devices").get_by_role("link")
    assert (device.get_attribute("href") or "").endswith(f"/devices/{uuid}")
    page.get_by_role("region", name="About").get_by_role("link", name="default").click()
    page.wait_for_url("**/queue?queue=default")
    assert visit.errors == []


def test_lines_of_ten_thousand_columns_are_shown_within_their_box(visit: Visit, box: Box, tmp_path: Path) -> None:
    name = "<script>alert(1)</script>"
    write = "head -c 10000 /dev/zero | tr '\\0' x; echo; echo '<img src=x onerror=alert(1)>'"
    job_id = box.submit("--name", name, "--", "sh", "-c", f"{write}; {until_there(tmp_path / 'never')}")
    page = visit.go(f"/jobs/{job_id}")
    log = page.get_by_role("log")
    expect(log).to_contain_text("<img src=x")
    page.get_by_label("Find in the log").fill("onerror")
    expect(page.get_by_text("1 of 1")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.locator("main img, main script").count() == 0
    assert visit.errors == []
