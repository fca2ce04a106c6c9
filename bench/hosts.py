"""Hosts that are joined by SSH, made by `tests.hosts_lab`: `python -m bench hosts`, as root, with sshd on the PATH.

It prints how soon jobs start on another host beside one's own, how fast many small jobs pass over eight hosts beside
one, and what a host that cannot be reached costs the others. All hosts are on this machine: they share its cores, and
so do the two ends of each connection.
"""

import statistics
import time
from collections.abc import Callable

from corral.client import Client
from corral.client.submitting.request import submission
from tests.engines.hosts.ssh_pool import SshPool
from tests.hosts_lab.agents import devices_of
from tests.hosts_lab.lab import why_no_lab

HOSTS = tuple(f"h{number}" for number in range(8))
GPUS = 8
OWN = "head"
STARTS = 150
JOBS = 1_000
RATE_GOAL = 0.8
START_GOAL_MS = 60.0
P99_GOAL = 0.1


def main() -> None:
    lacking = why_no_lab()
    if lacking is not None:
        print(f"no hosts can be made: {lacking}")
        return
    pool = SshPool(nodes=HOSTS, gpus=GPUS, own=devices_of(OWN, GPUS * len(HOSTS)))
    try:
        began = time.perf_counter()
        pool.up()
        with Client(pool.home) as client:
            while [row.state for row in client.nodes.list()] != ["ready"] * (len(HOSTS) + 1):
                time.sleep(0.5)
        print(f"a server and its {len(HOSTS)} hosts are ready after {time.perf_counter() - began:.1f} s")
        with Client(pool.home) as client:
            starts(client)
            throughput(client)
            beside_an_unreachable_host(pool, client)
    finally:
        pool.discard()


def starts(client: Client) -> None:
    """From submit to start, on the server's machine and on another in turn."""
    taken_ms: dict[str, list[float]] = {OWN: [], HOSTS[0]: []}
    for _ in range(STARTS):
        for node, times_ms in taken_ms.items():
            times_ms.append(_start_ms(client, node))
    own, other = (statistics.median(times_ms) for times_ms in taken_ms.values())
    print(f"submit to process start, p50: {other:.0f} ms on another host (goal {START_GOAL_MS:.0f} ms), "
          f"{own:.0f} ms on one's own")  # fmt: skip


def throughput(client: Client) -> None:
    """Many trivial jobs on one host with as many GPUs as eight have, and on these eight."""
    rates = {place: JOBS / _passed_s(client, place) for place in (OWN, ",".join(HOSTS))}
    one, eight = rates.values()
    print(f"{JOBS:,} trivial jobs: {one:.0f} jobs/s on one host, {eight:.0f} over {len(HOSTS)}: "
          f"{eight / one:.2f} of it (goal {RATE_GOAL})")  # fmt: skip


def beside_an_unreachable_host(pool: SshPool, client: Client) -> None:
    """Starts on other hosts, with all there and with one that is cut off, for which jobs wait."""
    there, cut_off = HOSTS[0], HOSTS[-1]
    before = _p99_ms(lambda: _start_ms(client, there))
    pool.host(cut_off).link.cut()
    pool.until(lambda: _state(client, cut_off) == "unreachable")
    waiting = [client.submit(["/bin/true"], workdir="/", gpus=1, node=cut_off) for _ in range(GPUS)]
    meanwhile = _p99_ms(lambda: _start_ms(client, there))
    pool.mend()
    for job in waiting:
        job.wait()
    print(f"submit to process start, p99: {before:.0f} ms with all hosts there, {meanwhile:.0f} ms while one is "
          f"cut off ({meanwhile / before - 1:+.0%}, goal {P99_GOAL:+.0%})")  # fmt: skip


def _start_ms(client: Client, node: str) -> float:
    began = time.time()
    (row,) = client.submit(["/bin/true"], workdir="/", gpus=1, node=node).wait()
    assert row.started_at is not None
    return (row.started_at - began) * 1e3


def _passed_s(client: Client, nodes: str) -> float:
    works = [submission(["/bin/true"], {"workdir": "/", "gpus": 1, "node": nodes}) for _ in range(JOBS)]
    began = time.perf_counter()
    client.wait([handle.id for handle in client.submit_many(works)], 600.0)
    return time.perf_counter() - began


def _p99_ms(once: Callable[[], float]) -> float:
    return statistics.quantiles((once() for _ in range(STARTS)), n=100)[98]


def _state(client: Client, host: str) -> str:
    return next(row.state.value for row in client.hosts.list().hosts if row.name == host)


if __name__ == "__main__":
    main()
