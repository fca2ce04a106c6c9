"""The pages in a real browser: how soon they are there, how soon they show what happens, whether they stay smooth.

`python -m bench.pages` prints each figure beside its goal. It needs Debian's chromium and the built pages. The browser
runs beside the server on the same machine.
"""

import shutil
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.history import DAYS, DEVICES, at_random
from bench.server import throw_away
from corral.client import Client
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.submission import Submission
from corral.features.dashboard.page_files import PageFiles
from corral.features.history.recording.file import HistoryFile
from corral.features.history.recording.levels import DAY_S, HOUR_S, kept_levels
from corral.features.history.recording.merging import blocks_with
from corral.features.history.recording.readings import device_key
from corral.features.history.recording.series import DeviceReadings, readings_of

ROUNDS = 5
MINUTE_S = 60
EVENTS_A_SECOND = 10
WATCHED_S = 15
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
_POINTS = """async () => {
  const {devices} = await (await fetch("/api/v1/devices")).json();
  const told = await fetch(`/api/v1/history/devices/${devices[0].uuid}?range=7d&series=power_w`);
  return (await told.json()).series.power_w.length;
}"""
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
            page.context.close()
        with throw_away(DEVICES, week) as server, Client(server.home) as client:
            page, base = opened(browser, client)
            week_of_eight(page, base)
            page.context.close()
        with site(512, 10_000) as client:
            page, base = opened(browser, client)
            smooth(page, base, client)
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


def week(home: Path) -> None:
    """Write a week of eight devices as a server keeps it, up to now."""
    file, levels, now = HistoryFile(home / "history.db"), kept_levels(DAYS), int(time.time()) // HOUR_S * HOUR_S
    readings = [
        DeviceReadings(at, MINUTE_S, readings_of(at_random("", at))) for at in range(now - DAYS * DAY_S, now, MINUTE_S)
    ]
    blocks = blocks_with(file, [level for level in levels if level.step_s >= MINUTE_S], "", readings)
    for number in range(DEVICES):
        key = device_key(f"c59395cd-ac91-4cd3-a1b0-3d2568aa2d{number:02}")
        file.write([block._replace(device=key) for block in blocks])
    file.close()


def week_of_eight(page: Any, base: str) -> None:
    """What the server has to read, tell and send is in it."""
    took_ms = []
    for _ in range(ROUNDS):
        page.goto(f"{base}/devices")
        page.locator(".chart canvas").first.wait_for()
        page.wait_for_timeout(2_000)
        took_ms.append(page.evaluate(_CLICK))
    points = page.evaluate(_POINTS)
    print(f"{DEVICES} devices over 7 days, {points:,} points a line: drawn {statistics.median(took_ms):.0f} ms "
          f"after the click, {max(took_ms):.0f} ms at most (goal 300 ms)")  # fmt: skip


def smooth(page: Any, base: str, client: Client) -> None:
    """While one scrolls, the listing is read again at least once."""
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
    print(f"10,000 jobs, 512 devices, {EVENTS_A_SECOND} events/s: longest task while scrolling {longest_ms:.0f} ms "
          f"(goal 200 ms; 0: none of 50), of the overview in 5 s {page.evaluate('window.longest'):.0f} ms")  # fmt: skip


if __name__ == "__main__":
    main()
