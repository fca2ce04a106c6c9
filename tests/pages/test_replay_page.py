"""The past under other policies as people look at it: chosen, started, watched, cancelled, and read side by side."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.box import Box, described, serving
from tests.e2e.test_replays import held_worker, is_gone
from tests.pages.conftest import Visit, visiting
from tests.pages.test_every_page import AXE, HOSTILE, RUN_AXE, SERIOUS


@pytest.fixture(scope="module")
def past() -> Iterator[Box]:
    """A box of one GPU on which three jobs ran, one after the other, with a name that is markup."""
    with serving(described(1)) as box:
        for _ in range(3):
            box.submit("--gpus", "1", "--name", HOSTILE, "--time", "1m", "--", "sleep", "1")
        box.until(lambda: all(row["phase"] == "SUCCEEDED" for row in box.json("ps", "--all", "--json")))
        yield box


@pytest.fixture(scope="module")
def _shared_visit(chromium: Browser, past: Box) -> Iterator[Visit]:
    with visiting(chromium, past) as visit:
        yield visit


@pytest.fixture
def replay_visit(_shared_visit: Visit) -> Visit:
    _shared_visit.leave()
    return _shared_visit


def test_policies_and_time_are_chosen_and_kept_in_the_address(replay_visit: Visit) -> None:
    page = replay_visit.go("/replay")
    expect(page.get_by_text("Nothing is compared yet")).to_be_visible()
    chosen = page.get_by_role("list", name="Policies").get_by_role("listitem")
    expect(chosen).to_contain_text(["as configured", "fair-share"])
    page.get_by_role("button", name="Leave out fair-share").click()
    page.get_by_label("Policy", exact=True).select_option(value="fcfs")
    page.get_by_label("Backfill").select_option(value="none")
    page.get_by_role("button", name="Add").click()
    expect(chosen).to_contain_text(["as configured", "fcfs, no backfill"])
    page.get_by_role("button", name="30d").click()
    page.wait_for_url("**range=30d**")
    page.reload()
    expect(chosen).to_contain_text(["as configured", "fcfs, no backfill"])
    expect(page.get_by_role("button", name="30d")).to_have_attribute("aria-pressed", "true")
    assert replay_visit.errors == []


def test_what_each_policy_made_of_the_jobs_stands_side_by_side(replay_visit: Visit) -> None:
    page = replay_visit.go("/replay?policies=configured,sjf")
    page.get_by_role("button", name="Start").press("Enter")
    result = page.get_by_role("region", name="Side by side")
    expect(result).to_contain_text("On average jobs wait")
    for name in ("as it was", "as configured", "sjf"):
        expect(result.get_by_role("columnheader", name=name)).to_be_visible()
    expect(result.get_by_role("row").filter(has_text="Jobs")).to_contain_text("3")
    for chart in ("GPUs allocated over time", "Jobs waiting over time", "How long the jobs waited"):
        expect(page.get_by_role("img", name=chart)).to_be_visible()
    page.get_by_label("Under").select_option(label="as it was")
    page.wait_for_url("**course=recorded**")
    page.reload()
    expect(result).to_contain_text("as it was")
    assert page.locator("main img").count() == 0
    assert replay_visit.errors == []


def test_the_result_is_accessible_in_both_themes_and_fits_a_phone(replay_visit: Visit) -> None:
    page = replay_visit.go("/replay?policies=configured,sjf,las,fcfs/none")
    page.get_by_role("button", name="Start").click()
    page.get_by_role("heading", name="Side by side").wait_for()
    if AXE.is_file():
        page.evaluate(AXE.read_text())
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            assert [each for each in page.evaluate(RUN_AXE) if each[0] in SERIOUS] == []
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function("document.documentElement.scrollWidth <= window.innerWidth")
    page.set_viewport_size({"width": 1280, "height": 800})


def test_one_that_runs_is_watched_and_cancelled(replay_visit: Visit, past: Box) -> None:
    page = replay_visit.go("/replay?policies=configured")
    page.get_by_role("button", name="Start").click()
    worker = held_worker(past)
    expect(page.get_by_role("progressbar")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("alert")).to_contain_text("Cancelled")
    past.until(lambda: is_gone(worker))
    page.get_by_role("button", name="Start again").click()
    expect(page.get_by_role("heading", name="Side by side")).to_be_visible()


def test_a_new_start_takes_the_place_of_the_one_that_runs(replay_visit: Visit, past: Box) -> None:
    page = replay_visit.go("/replay?policies=configured")
    page.get_by_role("button", name="Start").click()
    worker = held_worker(past)
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("heading", name="Side by side")).to_be_visible()
    assert is_gone(worker)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/replay?policies=fcsf", "did you mean 'fcfs'"),
        ("/replay?policies=sjf&from=2001-01-01&to=2001-01-02", "choose another"),
    ],
)
def test_what_cannot_be_run_again_says_what_to_do(replay_visit: Visit, path: str, told: str) -> None:
    page = replay_visit.go(path)
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("alert").first).to_contain_text(told)


def test_a_replay_that_is_over_for_long_can_be_started_again(replay_visit: Visit) -> None:
    page = replay_visit.go("/replay?policies=sjf&replay=replay-gone")
    expect(page.get_by_role("alert")).to_contain_text("start it again")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="Side by side")).to_be_visible()
