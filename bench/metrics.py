"""What Prometheus reads of a server with 1,000 devices: how long a scrape takes, and what others wait meanwhile.

`python -m bench.metrics` prints each figure beside its goal.
"""

import http.client
import socket
import threading
import time
from pathlib import Path

from bench.server import RunningServer, throw_away

DEVICES = 1_000
SCRAPES = 50
SETTINGS = "sample_interval: 5s\nstale_sample: 30s\n"


def main() -> None:
    with throw_away(DEVICES, prepare) as server:
        ask(server, "/metrics")
        alone_ms = times_ms(server, "/api/v1/health", 500)
        bodies = [ask(server, "/metrics") for _ in range(3)]
        busy_s = server.cpu_s()
        scrapes_ms = times_ms(server, "/metrics", SCRAPES)
        cpu_ms = 1e3 * (server.cpu_s() - busy_s) / SCRAPES
        beside_ms = beside_scrapes(server)
    rows = sum(not line.startswith(b"#") for line in bodies[-1].splitlines())
    print(f"/metrics of {DEVICES:,} devices: p50 {part(scrapes_ms, 50):.0f} ms, p99 {part(scrapes_ms, 99):.0f} ms, "
          f"{cpu_ms:.0f} ms of CPU, {rows:,} rows, {len(bodies[-1]) / 2**20:.1f} MiB (goal 100 ms; prometheus_client, "
          "writing alone: 107 ms)")  # fmt: skip
    print(f"a request of another's: p50 {part(alone_ms, 50):.2f} ms, p99 {part(alone_ms, 99):.1f} ms; beside scrapes "
          f"without a pause: p50 {part(beside_ms, 50):.2f} ms, p99 {part(beside_ms, 99):.1f} ms")  # fmt: skip


def prepare(home: Path) -> None:
    (home / "config.yaml").write_text(SETTINGS)


def beside_scrapes(server: RunningServer) -> list[float]:
    """Times of small requests while another thread has the metrics told again and again."""
    done = threading.Event()

    def scrape() -> None:
        while not done.is_set():
            ask(server, "/metrics")

    scraping = threading.Thread(target=scrape)
    scraping.start()
    found = times_ms(server, "/api/v1/health", 500)
    done.set()
    scraping.join()
    return found


def times_ms(server: RunningServer, path: str, count: int) -> list[float]:
    times = []
    for _ in range(count):
        began = time.perf_counter()
        ask(server, path)
        times.append(1e3 * (time.perf_counter() - began))
    return sorted(times)


def part(times: list[float], percent: int) -> float:
    return times[len(times) * percent // 100]


def ask(server: RunningServer, path: str) -> bytes:
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(server.socket))
    connection.request("GET", path)
    body = connection.getresponse().read()
    connection.close()
    return body


if __name__ == "__main__":
    main()
