"""The pages in a real browser: how soon they are there, how soon they show what happens, whether they stay smooth.

`python -m bench.pages` prints each figure beside its goal. It needs Debian's chromium and the built pages. The browser
runs beside the server on the same machine. Answers about the past are made up here, as long as a server's are; how long
a server takes to tell them is in `bench history`.
"""

import json
import shutil
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from bench.server import throw_away
from corral.api.pages.files import PageFiles
from corral.client import Client
from corral.model.job import Request
from corral.model.submission import Submission

ROUNDS = 5
EVENTS_A_SECOND = 10
WATCHED_S = 8
WORK = Submission(("/bin/true",), request=Request(devices=1), env={"PATH": "/bin"}, workdir="/")

# What the browser notes from the beginning of each page: when it drew lines, and what kept it from answering.
_NOTES = """
window.drawnAt = 0; window.longest = 0;
const stroke = CanvasRenderingContext2D.prototype.stroke;
CanvasRenderingContext2D.prototype.stroke = function (...all) {
  window.drawnAt = performance.now();
  stroke.apply(this, all);
};
new PerformanceObserver(list => {
  for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
}).observe({type: "longtask"});
"""
_CLICK = """() => new Promise(told => {
  const began = performance.now();
  [...document.querySelectorAll("button, label")].find(each => each.textContent.trim() === "7d").click();
  window.drawnAt = 0;
  const look = () => {
    const now = performance.now();
    if (window.drawnAt && now - window.drawnAt > 400) told(window.drawnAt - began);
    else if (now - began > 20000) told(NaN);
    else setTimeout(look, 20);
  };
  look();
})"""
_SCROLL = """async (seconds) => {
  const box = document.querySelector(".table-box"), until = performance.now() + seconds * 1000;
  window.longest = 0;
  while (performance.now() < until) { box.scrollTop += 400; await new Promise(requestAnimationFrame); }
  return window.longest;
}"""


def main() -> None:
    chromium = shutil.which("chromium")
    if chromium is None or not PageFiles().built:
        print("there is no chromium here, or the pages are not built (make web): nothing is measured")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        with site(64, 1_000) as client:
            page, base = opened(browser, client)
            first_paint(page, base)
            events(page, base, client)
            smooth(page, base, client)
            week_of_eight(page, base)
            page.context.close()
        browser.close()


@contextmanager
def site(devices: int, jobs: int) -> Iterator[Client]:
    """A server whose jobs all wait, for every device is cordoned."""
    with throw_away(devices) as server, Client(server.home) as client:
        for device in client.devices.list():
            client.devices.cordon(device.uuid, reason="bench")
        for _ in range(jobs // 1_000):
            client.submit_many([WORK] * 1_000)
        yield client


def opened(browser: Any, client: Client) -> tuple[Any, str]:
    """A page of a new browser profile that is signed in, and where the server is."""
    page = browser.new_context().new_page()
    page.set_default_timeout(60_000)
    page.add_init_script(_NOTES)
    link = client.page_link().url
    page.goto(link)
    page.get_by_role("heading", name="Overview").wait_for()
    return page, link.partition("/login")[0]


def first_paint(page: Any, base: str) -> None:
    times = []
    for _ in range(ROUNDS):
        page.goto(base)
        page.locator(".heat .cell").first.wait_for()
        paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        times.append((page.evaluate(paint), page.evaluate("performance.now()")))
    painted, whole = (statistics.median(column) for column in zip(*times, strict=True))
    sizes = page.evaluate("performance.getEntriesByType('resource').filter(e => e.name.includes('/assets/'))"
                          ".reduce((sum, e) => sum + e.encodedBodySize, 0)")  # fmt: skip
    print(f"64 devices, 1,000 jobs: first paint {painted:.0f} ms (goal 1,000 ms), every device after {whole:.0f} ms, "
          f"files of the first view {sizes / 1e3:.0f} kB packed (goal 600 kB)")  # fmt: skip


def events(page: Any, base: str, client: Client) -> None:
    """From the answer to a submission, which follows its commit, to its row."""
    page.goto(f"{base}/queue")
    page.locator("tbody tr").nth(5).wait_for()
    delays_ms = []
    for _ in range(ROUNDS):
        page.evaluate("window.rows = document.querySelector('table').ariaRowCount; window.seen = new Promise(told => {"
                      "const look = () => document.querySelector('table').ariaRowCount !== window.rows"
                      " ? told(Date.now()) : setTimeout(look, 5); look(); }); null")  # fmt: skip
        client.submit(WORK)
        committed = time.time()
        delays_ms.append(page.evaluate("window.seen") - 1e3 * committed)
        page.wait_for_timeout(500)
    print(f"1,000 jobs: a new job is on the page {statistics.median(delays_ms):.0f} ms after its commit, "
          f"{max(delays_ms):.0f} ms at most (goal 300 ms)")  # fmt: skip


def week_of_eight(page: Any, base: str) -> None:
    def first_eight(route: Any) -> None:
        answer = route.fetch().json()
        route.fulfill(body=json.dumps({**answer, "devices": answer["devices"][:8]}), content_type="application/json")

    def week(route: Any) -> None:
        """An answer of which each point is there. What is asked for 7 days alone was made before the click."""
        url = urlsplit(route.request.url)
        query = parse_qs(url.query)
        if url.query not in made:
            answer = route.fetch().json()
            at = range(int(answer["from"]), int(answer["to"]), int(answer["step_s"]))
            names = query["series"][0].split(",")
            points = [{"t": t, "min": 0, "mean": t // 60 * 37 % 100, "max": 100, "coverage": 1.0} for t in at]
            made[url.query] = json.dumps({**answer, "series": dict.fromkeys(names, points)})
            answers[url.query] = len(at)
        seen.add(url.path)
        route.fulfill(body=made[url.query], content_type="application/json")

    answers: dict[str, int] = {}
    made: dict[str, str] = {}
    seen: set[str] = set()
    page.route("**/api/v1/devices", first_eight)
    page.route("**/api/v1/history/devices/**", week)
    # Once before, so that the answers are made.
    page.goto(f"{base}/devices?range=7d")
    page.locator(".chart canvas").first.wait_for()
    page.wait_for_timeout(1_000)
    page.goto(f"{base}/devices")
    page.locator(".chart canvas").first.wait_for()
    page.wait_for_timeout(2_000)
    took_ms = page.evaluate(_CLICK)
    print(f"{len(seen)} devices over 7 days, {max(answers.values()):,} points a line, 4 charts: drawn {took_ms:.0f} ms "
          "after the click (goal 300 ms for 8)")  # fmt: skip


def multiplied(page: Any, path: str, listed: str, key: str, count: int) -> None:
    """Have the listing at a path answer with so many times its rows; each further one has a key of its own."""

    def answer(route: Any) -> None:
        told = route.fetch().json()
        rows = [{**row, key: f"{row[key]}-{copy}"} for copy in range(1, count) for row in told[listed]]
        route.fulfill(body=json.dumps({**told, listed: told[listed] + rows}), content_type="application/json")

    page.route(f"**/api/v1/{path}*", answer)


def smooth(page: Any, base: str, client: Client) -> None:
    """The listings are those of 64 devices and 1,000 jobs, many times; events are of the true ones."""
    multiplied(page, "jobs?", "jobs", "id", 10)
    multiplied(page, "devices", "devices", "uuid", 8)
    page.goto(f"{base}/queue")
    page.locator("tbody tr").nth(5).wait_for()
    page.wait_for_timeout(1_000)
    stop = threading.Event()

    def submit() -> None:
        while not stop.wait(1 / EVENTS_A_SECOND):
            client.submit(WORK)

    thread = threading.Thread(target=submit)
    thread.start()
    longest_ms = page.evaluate(_SCROLL, WATCHED_S)
    stop.set()
    thread.join()
    page.goto(base)
    page.locator(".heat .cell").nth(500).wait_for()
    page.evaluate("window.longest = 0")
    page.wait_for_timeout(5_000)
    print(f"10,000 jobs, 512 devices, {EVENTS_A_SECOND} events/s: the longest task while scrolling {longest_ms:.0f} ms "
          f"(goal 200 ms), of the overview in 5 s {page.evaluate('window.longest'):.0f} ms")  # fmt: skip
    page.unroute_all(behavior="ignoreErrors")


if __name__ == "__main__":
    main()
