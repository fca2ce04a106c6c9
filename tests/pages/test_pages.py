"""The pages as people use them."""

import re
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.e2e.box import Box, described, serving, until_there
from tests.pages.conftest import PATIENCE_MS, Visit, visiting


def test_a_link_signs_in_and_shows_each_device(visit: Visit) -> None:
    page = visit.page
    assert page.url == f"{visit.base}/"
    # An alert may name a device, too.
    devices = page.get_by_role("region", name="Devices")
    for index in range(4):
        expect(devices.get_by_role("link", name=f"GPU {index} ")).to_be_visible()
    assert visit.errors == []


def test_who_has_no_session_is_told_how_to_get_one(chromium: Browser, box: Box) -> None:
    with visiting(chromium, box) as visit:
        page = visit.page
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("Token")).to_be_visible()
        page.get_by_label("Token").fill("not-a-token-that-is-known")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("unknown here")
        page.get_by_label("Token").fill((box.home / "token").read_text().strip())
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def test_a_job_appears_and_starts_without_a_reload(visit: Visit, box: Box, tmp_path: Path) -> None:
    page = visit.go("/queue")
    gate = tmp_path / "gate"
    job_id = box.submit("--gpus", "1", "--name", "seen", "--", "sh", "-c", until_there(gate))
    row = page.get_by_role("row").filter(has_text="seen")
    expect(row).to_contain_text("running")
    gate.touch()
    expect(row).to_have_count(0)
    assert box.ended(job_id)["phase"] == "SUCCEEDED"
    assert visit.errors == []


def test_a_job_is_cancelled_with_the_keyboard_alone(visit: Visit, box: Box, tmp_path: Path) -> None:
    job_id = box.submit("--gpus", "1", "--", "sh", "-c", until_there(tmp_path / "never"))
    page = visit.go(f"/jobs/{job_id}")
    page.get_by_role("button", name="Cancel").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_be_visible()
    for _ in range(5):
        if dialog.get_by_role("button", name="Cancel the job").evaluate("at => at === document.activeElement"):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("cancelled").first).to_be_visible()
    assert box.ended(job_id)["phase"] == "CANCELLED"


def test_a_log_is_shown_as_it_grows_with_its_colours(visit: Visit, box: Box, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = f"printf '\\033[31mred line\\033[0m\\n'; {until_there(gate)}; echo last"
    job_id = box.submit("--gpus", "1", "--", "sh", "-c", script)
    log = visit.go(f"/jobs/{job_id}").get_by_role("log")
    expect(log).to_contain_text("red line")
    # One that is being drawn anew has no colour for a moment.
    expect(log.get_by_text("red line")).to_have_css("color", re.compile(r"rgb\((?!0, 0, 0\))"))
    gate.touch()
    expect(log).to_contain_text("last")


def test_eight_tabs_with_live_logs_leave_the_browser_its_connections(visit: Visit, box: Box, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job_id = box.submit("--", "sh", "-c", f"echo first; {until_there(gate)}; echo last")
    tabs = [visit.page, *(visit.page.context.new_page() for _ in range(7))]
    for tab in tabs:
        tab.set_default_timeout(PATIENCE_MS)
        tab.goto(f"{visit.base}/jobs/{job_id}")
        expect(tab.get_by_role("log")).to_contain_text("first")
    assert tabs[0].evaluate("fetch('/api/v1/server').then(answer => answer.status)") == 200
    gate.touch()
    for tab in tabs:
        expect(tab.get_by_role("log")).to_contain_text("last")
        expect(tab.get_by_text("ended", exact=True).first).to_be_visible()
    assert visit.errors == []


def test_a_log_has_no_gap_after_the_server_was_away(chromium: Browser, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with serving(described(1)) as box, visiting(chromium, box) as visit:
        job_id = box.submit(
            "--", "sh", "-c", f"echo one; {until_there(gate)}; echo two; {until_there(tmp_path / 'no')}"
        )
        log = visit.go(f"/jobs/{job_id}").get_by_role("log")
        expect(log).to_contain_text("one")
        box.down()
        gate.touch()
        box.up()
        expect(log.locator(".line").filter(has_text="two")).to_have_count(1)
        expect(log.locator(".line").filter(has_text="one")).to_have_count(1)


def test_the_page_goes_on_when_the_server_is_back_after_kill_9(chromium: Browser) -> None:
    with serving(described(2)) as box, visiting(chromium, box) as visit:
        page = visit.go("/queue")
        box.kill()
        expect(page.get_by_text("The connection to the server is lost")).to_be_visible()
        box.up()
        box.submit("--gpus", "1", "--name", "after", "--", "sleep", "60")
        expect(page.get_by_text("The connection to the server is lost")).to_have_count(0)
        expect(page.get_by_role("row").filter(has_text="after")).to_be_visible()


def test_a_page_that_was_not_loaded_yet_comes_when_the_server_is_back(chromium: Browser) -> None:
    with serving(described(1)) as box, visiting(chromium, box) as visit:
        page = visit.page
        box.down()
        expect(page.get_by_text("The connection to the server is lost")).to_be_visible()
        link = page.get_by_role("link", name="Compare")
        link.hover()
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        link.click()
        expect(page.get_by_text("This page was not loaded yet")).to_be_visible()
        box.up()
        expect(page.get_by_role("heading", name="Compare")).to_be_visible()


def test_an_address_within_the_pages_can_be_kept(visit: Visit, box: Box) -> None:
    page = visit.go("/queue?user=nobody&ended=true")
    expect(page.get_by_label("User")).to_have_value("nobody")
    expect(page.get_by_role("checkbox")).to_be_checked()
    page.get_by_label("Name", exact=True).fill("sweep-*")
    page.wait_for_url(re.compile(r"name=sweep-"))


def test_the_title_and_the_frame_say_of_which_cluster_the_pages_are(chromium: Browser) -> None:
    with serving(described(1), "cluster: {name: GPU-Cluster-01}\n") as box, visiting(chromium, box) as visit:
        for address in ("/", "/queue"):
            page = visit.go(address)
            expect(page).to_have_title("GPU-Cluster-01 · Corral")
            expect(page.get_by_role("banner").get_by_text("GPU-Cluster-01")).to_be_visible()
        assert visit.errors == []
