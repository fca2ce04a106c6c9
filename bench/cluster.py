"""A server of many nodes: a mock cluster of 64 nodes x 8 devices, with real agents.

`python -m bench cluster` prints how soon it is there, what server and agents take while nothing happens with samples
each 5 seconds, how soon a gang of 16 nodes runs, and how soon others' jobs start beside an agent that is stopped.
"""

import os
import re
import signal
import sqlite3
import statistics
import time
from contextlib import closing
from pathlib import Path

from bench.server import RunningServer, throw_away
from corral.client import Client

NODES = 64
DEVICES = 8
SETTLE_S = 10.0
IDLE_S = 30.0
GANGS, MEMBERS = 20, 16
JOBS = 100
STOPPED = "n000"
SETTINGS = "sample_interval: 5s\nstale_sample: 20s\nnode_silent_after: 5m\nnode_gone_after: 1h\n"
"""Nodes count as silent so late that one that is stopped is not yet known as such."""


def main() -> None:
    with throw_away(prepare=describe) as server, Client(server.home) as client:
        print(f"server and {NODES} agents ready after {server.ready_s:.1f} s")
        await_nodes(client)
        time.sleep(SETTLE_S)
        idle(server)
        client.submit(["/bin/true"], workdir="/", gpus=1).wait()
        gangs(server, client)
        beside_a_stopped_agent(server, client)


def describe(home: Path) -> None:
    """Nodes in the place of a mock file's devices."""
    (home / "mock-accelerator.toml").write_text("".join(_node(number) for number in range(NODES)))
    (home / "config.yaml").write_text(SETTINGS)


def await_nodes(client: Client) -> None:
    while {row.state for row in client.nodes.list()} != {"ready"}:
        time.sleep(0.5)


def idle(server: RunningServer) -> None:
    before_s = server.cpu_s()
    time.sleep(IDLE_S)
    busy_pct = 100 * (server.cpu_s() - before_s) / IDLE_S
    agent_mib = statistics.median(_pss_mib(_agent(server, f"n{number:03d}")) for number in range(NODES))
    print(f"idle, {NODES} nodes x {DEVICES} devices sampled each 5 s: {busy_pct:.2f} % of a core (goal below 2 %), "
          f"{_pss_mib(server.pid):.0f} MiB, and {agent_mib:.1f} MiB an agent (PSS)")  # fmt: skip


def gangs(server: RunningServer, client: Client) -> None:
    """From the decision to start a gang, which its allocation bears, to the start of its last member."""
    waits_ms = []
    for _ in range(GANGS):
        job = client.submit(["/bin/true"], workdir="/", gang=MEMBERS, gpus=DEVICES)
        (row,) = job.wait()
        assert row.started_at is not None
        waits_ms.append((row.started_at - _decided_at(server.home, job.id)) * 1e3)
        time.sleep(0.2)
    print(f"a gang of {MEMBERS} nodes runs after its decision, {GANGS} gangs: median "
          f"{statistics.median(waits_ms):.0f} ms, longest {max(waits_ms):.0f} ms (goal 150 ms)")  # fmt: skip


def beside_a_stopped_agent(server: RunningServer, client: Client) -> None:
    """Jobs on other nodes, from submit to start, while one agent hangs that others wait for."""
    _tell_of_starts("all agents answer", _starts_ms(client))
    agent = _agent(server, STOPPED)
    os.kill(agent, signal.SIGSTOP)
    try:
        waiting = [client.submit(["/bin/true"], workdir="/", gpus=1, node=STOPPED) for _ in range(DEVICES)]
        _tell_of_starts(f"the agent of {STOPPED} is stopped, and {DEVICES} jobs wait for it", _starts_ms(client))
    finally:
        os.kill(agent, signal.SIGCONT)
    for job in waiting:
        job.wait()


def _starts_ms(client: Client) -> list[float]:
    waits_ms = []
    for number in range(JOBS):
        began = time.time()
        (row,) = client.submit(["/bin/true"], workdir="/", gpus=1, node=f"n{1 + number % (NODES - 1):03d}").wait()
        assert row.started_at is not None
        waits_ms.append((row.started_at - began) * 1e3)
    return waits_ms


def _tell_of_starts(when: str, waits_ms: list[float]) -> None:
    percentiles = statistics.quantiles(waits_ms, n=100)
    print(f"submit to process start on other nodes, {when}: p50 {percentiles[49]:.0f} ms, p99 {percentiles[98]:.0f} ms "
          "(goal: a stopped agent adds at most 50 ms)")  # fmt: skip


def _decided_at(home: Path, job_id: str) -> float:
    with closing(sqlite3.connect(f"file:{home / 'ledger.db'}?mode=ro", uri=True)) as ledger:
        query = "SELECT at FROM journal WHERE job_id = ? AND fact = 'AllocationMade'"
        (at,) = ledger.execute(query, (job_id,)).fetchone()
    return float(at)


def _agent(server: RunningServer, node: str) -> int:
    return int((server.home / "nodes" / node / "corral.pid").read_text().split()[0])


def _pss_mib(pid: int) -> float:
    found = re.search(r"^Pss: +(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


def _node(number: int) -> str:
    rows = "".join(
        f'  {{ mother_uuid = "GPU-{number:03d}-{i}", model_name = "Mock A100", memory_size = "80G" }},\n'
        for i in range(DEVICES)
    )
    return f'[[nodes]]\nname = "n{number:03d}"\ndevices = [\n{rows}]\n'


if __name__ == "__main__":
    main()
