"""Sessions and origins as a browser has them."""

import re
import time
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, expect

from tests.e2e.box import Box, until_there
from tests.pages.conftest import Visit, visiting

ELSEWHERE = "http://127.0.0.1:65000/"
TRIED = """async (base) => {
  const read = await fetch(`${base}/api/v1/jobs`, {credentials: "include"}).then(r => r.text(), () => "refused");
  await fetch(`${base}/api/v1/jobs`, {method: "POST", mode: "no-cors", credentials: "include",
    body: JSON.stringify({command: ["true"], name: "from-elsewhere"})}).catch(() => null);
  const socket = await new Promise(told => {
    const socket = new WebSocket(`${base.replace("http", "ws")}/api/v1/events`);
    socket.onopen = () => told("open");
    socket.onclose = () => told("refused");
  });
  return [read, socket];
}"""


def test_who_was_revoked_signs_in_again_and_is_where_they_were(visit: Visit, box: Box) -> None:
    page = visit.go("/queue?user=nobody")
    for token in box.json("token", "list", "--json"):
        box.ok("token", "revoke", token["id"])
    expect(page.get_by_text("Your session has ended")).to_be_visible()
    page.get_by_label("Token").fill((box.home / "token").read_text().strip())
    page.keyboard.press("Enter")
    expect(page.get_by_label("User")).to_have_value("nobody")
    assert urlsplit(page.url).path == "/queue"


def test_the_page_of_another_port_reads_and_changes_nothing(visit: Visit, box: Box) -> None:
    page = visit.page.context.new_page()
    page.route(ELSEWHERE, lambda route: route.fulfill(body="<title>elsewhere</title>", content_type="text/html"))
    page.goto(ELSEWHERE)
    assert page.evaluate(TRIED, visit.base) == ["refused", "refused"]
    assert [row for row in box.json("ps", "--all", "--json") if row["name"] == "from-elsewhere"] == []


def test_a_browser_whose_clock_is_an_hour_ahead_shows_true_durations(
    chromium: Browser, box: Box, tmp_path: Path
) -> None:
    began = time.monotonic()
    box.submit("--gpus", "1", "--name", "timed", "--", "sh", "-c", until_there(tmp_path / "never"))
    with visiting(chromium, box, ahead_s=3600) as visit:
        row = visit.go("/queue").get_by_role("row").filter(has_text="timed")
        expect(row).to_contain_text(re.compile(r"(<1|\d+)s"))
        if time.monotonic() - began < 3000:
            expect(row).not_to_contain_text(re.compile(r"\dh"))
