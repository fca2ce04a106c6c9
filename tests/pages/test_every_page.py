"""What holds for every page, whatever it is about; `router.tsx` says which there are."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.e2e.box import Box, until_there, uuid
from tests.pages.conftest import Visit, visiting

WEB = Path(__file__).parents[2] / "web"
AXE = WEB / "node_modules/axe-core/axe.min.js"
PATHS = re.findall(r'path: "([^"]+)"', (WEB / "src/router.tsx").read_text())
SERIOUS = ("serious", "critical")
HOSTILE = "<img src=x onerror=alert(1)>"
RUN_AXE = "axe.run().then(r => r.violations.map(v => [v.impact, v.id, v.nodes[0].html]))"


def shown(page: Page) -> None:
    """Wait until the page has read what it shows."""
    page.locator("main .state[role=status]").first.wait_for(state="detached")


def test_every_page_is_whole_accessible_and_takes_names_for_text(chromium: Browser, box: Box, tmp_path: Path) -> None:
    """In both themes and on a phone, with names that are markup wherever a user may name something."""
    script = f"echo '{HOSTILE}'; {until_there(tmp_path / 'never')}"
    job_id = box.submit("--gpus", "1", "--name", HOSTILE, "--", "sh", "-c", script)
    box.ok("cordon", "3", "--reason", HOSTILE)
    box.until_phase(job_id, "RUNNING")
    node = box.json("nodes", "--json")[0]["name"]
    with visiting(chromium, box) as visit:
        wrong: list[object] = []
        for pattern in PATHS:
            path = pattern.replace("$id", job_id).replace("$uuid", uuid(3)).replace("$name", node)
            wrong += [(path, each) for each in what_is_wrong(visit, path)]
        assert wrong + visit.errors == []


def what_is_wrong(visit: Visit, path: str) -> list[object]:
    page = visit.page
    page.set_viewport_size({"width": 1280, "height": 800})
    visit.go(path)
    shown(page)
    wrong: list[object] = ["a name is markup"] if page.locator("main img").count() else []
    if AXE.is_file():
        page.evaluate(AXE.read_text())
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            wrong += [[scheme, *each] for each in page.evaluate(RUN_AXE) if each[0] in SERIOUS]
    page.set_viewport_size({"width": 390, "height": 844})
    try:
        # Charts are drawn anew a moment after their box has become narrow.
        page.wait_for_function("document.documentElement.scrollWidth <= window.innerWidth", timeout=5_000)
    except PlaywrightTimeout:
        wrong.append("too wide for a phone")
    return wrong


def test_there_are_pages() -> None:
    assert {"/devices", "/queue", "/jobs/$id"} <= set(PATHS)


@pytest.mark.parametrize("path", ["/nothing", "/devices/none", "/jobs/999999"])
def test_what_is_not_there_is_said(visit: Visit, path: str) -> None:
    visit.page.goto(visit.base + path)
    visit.page.locator("main .state").first.wait_for()
