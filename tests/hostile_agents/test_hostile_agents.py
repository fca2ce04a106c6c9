"""A host whose agent lies: the server lives, other nodes start jobs, and that node alone is refused, with a reason."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from corral.client import Client
from corral.core.model.errors import CorralError

HERE = Path(__file__).parent
PATIENCE_S = 90.0
MOST_MORE_MIB = 250
SETTINGS = "sample_interval: 0.2s\nnode_silent_after: 2s\nnode_gone_after: 10m\nkill_grace: 0.5s\n"
DEVICE = '[[devices]]\nmother_uuid = "GPU-{}-{}"\nmodel_name = "Mock A100"\nmemory_size = "80G"\n'
KINDS = (
    *(
        "bytes",
        "cut",
        "announced",
        "large",
        "many",
        "deep",
        "nested",
        "errors",
        "restarts",
        "endless",
        "foreign",
        "hang",
    ),
    *("clock", "values"),
)


class Pool:
    """A server with the nodes a, which is honest, and b, before which a liar stands."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="liar-"))
        self.orders = self.home / "orders"
        (self.home / "config.yaml").write_text(SETTINGS)
        self.processes: list[subprocess.Popen[str]] = []

    def begin(self) -> None:
        """Start the agents, the liar and the server."""
        places = {}
        for name in ("a", "b"):
            place = self.home / name
            place.mkdir()
            (place / "config.yaml").write_text(SETTINGS)
            (place / "mock.toml").write_text("".join(DEVICE.format(name, index) for index in range(2)))
            places[name] = place / "agent.sock"
            agent = ("-m", "corral.host.node.agent", "--home", str(place), "--node", name)
            self.start(*agent, "--socket", str(places[name]), "--mock", str(place / "mock.toml"))
        liar = self.home / "liar.sock"
        self.until(lambda: all(path.exists() for path in places.values()))
        self.start(str(HERE / "liar.py"), str(liar), str(places["b"]), str(self.orders))
        self.until(liar.exists)
        words = (f"a={places['a']}", f"b={liar}", "--", "--home", str(self.home))
        self.server = self.start(str(HERE / "pool_server.py"), *words)
        self.until((self.home / "corral.sock").exists)
        self.client = Client(self.home)
        self.until(lambda: self.states() == {"a": "ready", "b": "ready"})

    def start(self, *words: str) -> "subprocess.Popen[str]":
        path = os.pathsep.join((str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")))
        environ = {**os.environ, "SEED": "1", "PYTHONPATH": path, "CORRAL_HOME": str(self.home)}
        log = (self.home / f"log-{len(self.processes)}").open("w")
        with log:
            process = subprocess.Popen([sys.executable, *words], env=environ, stdout=log, stderr=log, text=True)
        self.processes.append(process)
        return process

    def until(self, true: Any) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            for process in self.processes:
                assert process.poll() is None, f"{process.args!r} has ended:\n{self.said()}"
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.02)

    def said(self) -> str:
        logs = (self.home / f"log-{number}" for number in range(len(self.processes)))
        return "\n".join(log.read_text()[-3000:] for log in logs)

    def states(self) -> dict[str, str]:
        return {row.name: row.state for row in self.client.nodes.list()}

    def reason(self) -> str:
        return next(row.reason or "" for row in self.client.nodes.list() if row.name == "b")

    def lie(self, kind: str, **more: Any) -> None:
        foreign = [f"{row.id}.1" for row in self.client.jobs.list(limit=None)]
        order = {"kind": kind, "at": time.monotonic(), "foreign": [*foreign, "1.1", "GPU-a-0"], **more}
        draft = self.orders.with_suffix(".draft")
        draft.write_text(json.dumps(order))
        draft.rename(self.orders)

    def be_honest(self) -> None:
        self.orders.unlink(missing_ok=True)

    def runs_on(self, node: str, within_s: float = PATIENCE_S) -> float:
        """How long a job takes there; it must succeed."""
        began = time.monotonic()
        job = self.client.submit(["/bin/true"], gpus=1, node=node, workdir="/")
        (row,) = job.wait(timeout_s=within_s)
        assert row.phase == "SUCCEEDED", (row, self.said())
        return time.monotonic() - began

    def rss_mib(self) -> int:
        status = Path(f"/proc/{self.server.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) // 1024

    def close(self) -> None:
        self.be_honest()
        with suppress(AttributeError, CorralError):
            ids = [row.id for row in self.client.jobs.list(limit=None)]
            for job_id in ids:
                self.client.jobs.cancel(job_id)
            self.client.wait(ids, PATIENCE_S)
        with suppress(AttributeError):
            self.client.close()
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.home, ignore_errors=True)


@pytest.fixture(scope="module")
def _pool() -> Iterator[Pool]:
    made = Pool()
    try:
        made.begin()
        yield made
    finally:
        made.close()


@pytest.fixture
def pool(_pool: Pool) -> Iterator[Pool]:
    yield _pool
    _pool.be_honest()


@pytest.mark.parametrize("kind", KINDS)
def test_a_lie_harms_the_node_of_the_liar_alone(pool: Pool, kind: str) -> None:
    random.seed(kind)
    before_mib = pool.rss_mib()
    runs = pool.client.submit(["/bin/sleep", "3600"], gpus=1, node="a", workdir="/")
    pool.until(lambda: runs.row().phase == "RUNNING")
    meant = pool.client.submit(["/bin/true"], gpus=1, node="b", workdir="/")
    pool.lie(kind, by_s=random.choice((1e10, -1e10, 3600.0)))
    until = time.monotonic() + 4.0
    while time.monotonic() < until:
        pool.runs_on("a", 30.0)
    assert pool.states()["a"] == "ready"
    assert runs.row().phase == "RUNNING"
    assert pool.server.poll() is None, pool.said()
    assert pool.rss_mib() - before_mib < MOST_MORE_MIB
    nodes, jobs = pool.client.nodes.list(), pool.client.jobs.list(limit=None)
    for reason in (*(row.reason or "" for row in nodes), *(row.reason or "" for row in jobs)):
        assert "\x1b" not in reason
        assert len(reason) < 5000
    pool.be_honest()
    runs.cancel()
    pool.client.wait([runs.id, meant.id], PATIENCE_S)
    pool.until(lambda: pool.states()["b"] == "ready")
    pool.runs_on("b")


def test_an_agent_that_makes_no_sense_is_refused_with_the_reason_and_taken_again(pool: Pool) -> None:
    pool.lie("many")
    pool.until(lambda: pool.states()["b"] == "silent" and "values" in pool.reason())
    pool.be_honest()
    pool.until(lambda: pool.states()["b"] == "ready")


@pytest.mark.parametrize("seed", range(3))
def test_changed_values_never_end_the_server(pool: Pool, seed: int) -> None:
    pool.lie("values", seed=seed)
    until = time.monotonic() + 5.0
    reasons: set[str] = set()
    while time.monotonic() < until or not any("makes no sense" in one for one in reasons):
        assert time.monotonic() < until + PATIENCE_S, reasons
        pool.runs_on("a", 30.0)
        reasons.add(pool.reason())
        job = pool.client.submit(["/bin/sh", "-c", "echo x; sleep 0.2"], gpus=1, node="b", workdir="/")
        with suppress(CorralError):
            job.why()
            list(job.logs())
        job.cancel()
    assert pool.server.poll() is None, pool.said()
