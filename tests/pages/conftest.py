"""A real browser on a real server's pages."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from corral.features.dashboard.page_files import PageFiles
from tests.e2e.box import Box, described, serving

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright  # noqa: E402 - see above

CHROMIUM = shutil.which("chromium")
_QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)
PATIENCE_MS = 60_000.0
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser for the tests of one file: while there is one, its thread has an event loop that runs."""
    if CHROMIUM is None:
        pytest.skip("there is no chromium here: on Debian, apt install chromium")
    if not PageFiles().built:
        pytest.skip("the pages are not built: make web")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(_QUIET))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def _shared_box() -> Iterator[Box]:
    with serving(described(4)) as box:
        yield box


@pytest.fixture
def box(_shared_box: Box) -> Iterator[Box]:
    """A box of four GPUs, all free."""
    yield _shared_box
    _shared_box.clear()


class Visit:
    """A page in a browser, signed in on a box; `errors` is what its console said was wrong."""

    def __init__(self, page: Page, box: Box) -> None:
        self.page = page
        self.errors: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        link = box.ok("dashboard", "--no-open").strip()
        found = urlsplit(link)
        self.base = f"{found.scheme}://{found.netloc}"
        page.goto(link)
        page.get_by_role("heading", name="Overview").wait_for()
        # Who has no session yet is told so once, and the browser says that in its console.
        self.errors.clear()

    def sign_in_again(self, token: str, base: str) -> None:
        """Sign out, and in at this address of the pages with a token."""
        self.page.get_by_role("button", name="Sign out").click()
        self.page.get_by_label("Token").wait_for()
        self.base = base
        self.page.goto(base)
        self.page.get_by_label("Token").fill(token)
        self.page.keyboard.press("Enter")
        self.page.get_by_role("heading", name="Overview").wait_for()

    def leave(self) -> None:
        """Show no page: what was still being read for the last one is an error of nobody's who comes after."""
        self.page.goto("about:blank")
        self.errors.clear()

    def go(self, path: str) -> Page:
        self.page.goto(self.base + path)
        self.page.locator("h1").first.wait_for()
        return self.page

    def go_anyhow(self, path: str) -> Page:
        """Open an address that may be of nothing, and wait for what the page says."""
        self.page.goto(self.base + path)
        self.page.locator("main h1, main .state:not([role=status])").first.wait_for()
        return self.page


@contextmanager
def visiting(browser: Browser, box: Box, *, ahead_s: float = 0.0, **options: object) -> Iterator[Visit]:
    """A visit with a browser profile of its own, whose clock is so far ahead."""
    context: BrowserContext = browser.new_context(**options)  # type: ignore[arg-type]
    try:
        if ahead_s:
            context.clock.install(time=time.time() + ahead_s)
        yield Visit(context.new_page(), box)
    finally:
        context.close()


@pytest.fixture
def visit(chromium: Browser, box: Box) -> Iterator[Visit]:
    with visiting(chromium, box) as visit:
        yield visit
