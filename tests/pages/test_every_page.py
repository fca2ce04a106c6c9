"""What holds for every page, whatever it is about; `router.tsx` says which there are."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from corral.client import Client
from tests.e2e.box import Box, until_there, uuid
from tests.pages.conftest import Visit, visiting

pytestmark = pytest.mark.long

WEB = Path(__file__).parents[2] / "web"
AXE = WEB / "node_modules/axe-core/axe.min.js"
PATHS = re.findall(r'path: "([^"]+)"', (WEB / "src/router.tsx").read_text())
VIEWS = ("/queue?timeline=6h", "/compare?what=devices&ids=$uuid", "/devices?range=24h")
"""Of pages that look otherwise by their address."""
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
    task, experiment = hostile_task(box)
    with visiting(chromium, box) as visit:
        wrong: list[object] = []
        for pattern in (*PATHS, *VIEWS):
            path = pattern.replace("$id", job_id).replace("$uuid", uuid(3)).replace("$name", node)
            path = path.replace("$task", task).replace("$experiment", experiment)
            wrong += [(path, each) for each in what_is_wrong(visit, path)]
        assert wrong + visit.errors == []


def hostile_task(box: Box) -> tuple[str, str]:
    """A task of the autotuner and its experiment, whose server does not start."""
    with Client(box.home) as client:
        task = {"task_name": HOSTILE, "model": {"id_or_path": HOSTILE}, "base_runtime": "stand-in"}
        task_id = client.tasks.create({**task, "parameters": {"chunk-size": [HOSTILE]}}).id
        client.tasks.start(task_id)
        box.until(lambda: client.tasks.get(task_id).task.status == "failed")
        return task_id, client.experiments.list(task_id)[0].id


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
        page.wait_for_function("document.documentElement.scrollWidth <= window.innerWidth")
    except PlaywrightTimeout:
        wrong.append("too wide for a phone")
    return wrong


def test_there_are_pages() -> None:
    assert {"/devices", "/queue", "/jobs/$id"} <= set(PATHS)


GARBAGE = ("%E0%A4%A", "__proto__", "0000-00-00" + "%3Cimg%20src=x%3E" * 20)


@pytest.mark.parametrize("garbage", GARBAGE)
def test_no_address_breaks_a_page(visit: Visit, garbage: str) -> None:
    source = (WEB / "src/router.tsx").read_text()
    filters = sorted(set(re.findall(r"search\.(\w+)", source)))
    broken = []
    for path in PATHS:
        address = re.sub(r"\$\w+", garbage, path) + "?" + "&".join(f"{name}={garbage}" for name in filters)
        page = visit.go_anyhow(address)
        if page.get_by_text("This page failed").count() or page.locator("main img").count():
            broken.append(address)
    assert broken == []
    assert [error for error in visit.errors if "status of 4" not in error] == []


def test_a_page_that_breaks_says_what_to_do(visit: Visit) -> None:
    page = visit.page
    page.route("**/api/v1/nodes", lambda route: route.fulfill(json={"nodes": [None]}))
    page.goto(f"{visit.base}/nodes?user=nobody")
    told = page.get_by_role("alert").filter(has_text="This page failed")
    told.wait_for()
    page.unroute("**/api/v1/nodes")
    told.get_by_role("link", name="Without filters").click()
    page.get_by_role("heading", name="Nodes").wait_for()
    assert urlsplit(page.url).query == ""


@pytest.mark.parametrize("path", ["/nothing", "/devices/none", "/jobs/999999"])
def test_what_is_not_there_is_said(visit: Visit, path: str) -> None:
    visit.page.goto(visit.base + path)
    visit.page.locator("main .state").first.wait_for()
