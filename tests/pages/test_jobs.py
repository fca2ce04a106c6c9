"""The pages of jobs as people use them: a form, a queue, a job."""

from contextlib import suppress
from pathlib import Path

from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.e2e.box import Box, until_there
from tests.pages.conftest import PATIENCE_MS, Visit, visiting


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
    expect(page.get_by_text("starts now")).to_be_visible(timeout=PATIENCE_MS)
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
    expect(page.get_by_text("cancelled").first).to_be_visible(timeout=PATIENCE_MS)
    assert visit.errors == []


def test_what_the_server_refuses_stands_beside_its_field(visit: Visit) -> None:
    page = visit.go("/submit")
    page.get_by_label("Command", exact=True).fill("sleep 1")
    page.get_by_label("Queue", exact=True).fill("nowhere")
    queue = page.get_by_label("Queue", exact=True)
    expect(queue).to_have_attribute("aria-invalid", "true", timeout=PATIENCE_MS)
    expect(page.get_by_role("alert")).to_contain_text("there is no queue")
    queue.fill("")
    page.get_by_label("GPUs", exact=True).fill("5")
    expect(page.get_by_text("cannot run here")).to_be_visible(timeout=PATIENCE_MS)


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
            expect(page.get_by_text("cancelled").first).to_be_visible(timeout=PATIENCE_MS)
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
    expect(page.get_by_text("2 jobs on hold")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_role("row").filter(has_text="waits-1")).to_contain_text("on hold", timeout=PATIENCE_MS)
    page.get_by_text("As a table").click()
    table = page.get_by_label("The timeline as a table")
    expect(table.get_by_role("row").filter(has_text="first")).to_have_count(4, timeout=PATIENCE_MS)
    assert visit.errors == []


def test_a_job_shows_what_was_measured_of_its_gpus(visit: Visit, box: Box, tmp_path: Path) -> None:
    job_id = box.submit("--gpus", "1", "--", "sh", "-c", until_there(tmp_path / "never"))
    page = visit.go(f"/jobs/{job_id}")
    for title in ("GPU Utilization (%)", "Memory Usage (%)", "Temperature (°C)", "Power Draw (W)"):
        expect(page.get_by_role("figure", name=title)).to_be_visible(timeout=PATIENCE_MS)
    columns = page.get_by_role("region", name="Each GPU").get_by_role("columnheader")
    assert columns.all_inner_texts() == ["GPU ID", "Model", "Utilization", "Memory", "Temperature", "Power"]
    page.get_by_role("button", name="Change").click()
    page.get_by_label("Time limit").fill("90m")
    page.get_by_role("button", name="Change it").click()
    expect(page.get_by_text("of 1h 30m")).to_be_visible(timeout=PATIENCE_MS)


def test_lines_of_ten_thousand_columns_are_shown_within_their_box(visit: Visit, box: Box, tmp_path: Path) -> None:
    name = "<script>alert(1)</script>"
    write = "head -c 10000 /dev/zero | tr '\\0' x; echo; echo '<img src=x onerror=alert(1)>'"
    job_id = box.submit("--name", name, "--", "sh", "-c", f"{write}; {until_there(tmp_path / 'never')}")
    page = visit.go(f"/jobs/{job_id}")
    log = page.get_by_role("log")
    expect(log).to_contain_text("<img src=x", timeout=PATIENCE_MS)
    page.get_by_label("Find in the log").fill("onerror")
    expect(page.get_by_text("1 of 1")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.locator("main img, main script").count() == 0
    assert visit.errors == []
