"""Clusters of mock nodes with real agents and real jobs: placing, silence, loss and return, drains."""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.box import COMMAND_S, CORRAL, Box
from tests.engines.pool import SETTINGS, Pool, cluster, runs_at
from tests.engines.pool_contract import PoolContract

REPOSITORY = Path(__file__).parent.parent.parent


class MockPool(Pool):
    """A mock cluster on this machine."""

    def __init__(self, gone_after: str) -> None:
        super().__init__(cluster(a="", b=""), SETTINGS.format(gone_after=gone_after))
        self.shared = self.home

    def runs(self, node: str, pid: int) -> bool:
        return runs_at(Path(f"/proc/{pid}/stat"))

    def signal_agent(self, node: str, number: signal.Signals) -> None:
        os.kill(self._agent(node), number)

    def kill_agent(self, node: str) -> None:
        before = self._agent(node)
        os.kill(before, signal.SIGKILL)
        self.until(lambda: self._agent(node) != before)

    def silence(self, node: str) -> None:
        self.describe(cluster(**{name: "silent = true" if name == node else "" for name in ("a", "b")}))

    def switch_off(self, node: str) -> None:
        self.describe(cluster(**{name: "gone = true" if name == node else "" for name in ("a", "b")}))

    def mend(self) -> None:
        self.describe(cluster(a="", b=""))

    @contextmanager
    def stranger(self, node: str) -> Iterator[int]:
        assert node == "b", "the last that is described"
        with subprocess.Popen(["sleep", "1000"]) as process:
            try:
                use = f'processes = [{{ pid = {process.pid}, user = "somebody", memory = "1G" }}]\n'
                self.describe(cluster(use, a="", b=""))
                yield process.pid
            finally:
                process.terminate()

    def _agent(self, node: str) -> int:
        return int((self.home / "nodes" / node / "corral.pid").read_text())


@contextmanager
def two_nodes(gone_after: str) -> Iterator[Pool]:
    """A server with the nodes a and b."""
    pool = MockPool(gone_after)
    pool.up()
    pool.all_ready()
    yield pool
    pool.discard()


@pytest.fixture(scope="module")
def _shared_two() -> Iterator[Pool]:
    with two_nodes("10m") as pool:
        yield pool


@pytest.fixture(scope="module")
def _shared_hasty() -> Iterator[Pool]:
    with two_nodes("5s") as pool:
        yield pool


class TestMockCluster(PoolContract):
    @pytest.fixture
    def two(self, _shared_two: Pool) -> Iterator[Pool]:
        yield _shared_two
        _shared_two.restore()

    @pytest.fixture
    def hasty(self, _shared_hasty: Pool) -> Iterator[Pool]:
        yield _shared_hasty
        _shared_hasty.restore()

    def test_a_node_is_shown_with_what_it_has(self, two: Pool) -> None:
        rows = two.nodes()
        assert [(row["cpus"], row["memory_mib"]) for row in rows] == [(8.0, 32768)] * 2
        assert {"name", "state", "reason", "last_seen_at", "devices", "labels", "boot_id"} <= set(rows[0])
        lines = [*two.ok("status").splitlines(), *two.ok("nodes").splitlines(), *two.ok("devices").splitlines()]
        assert all(len(line) <= 80 for line in lines)


def test_gpus_of_a_node_that_joins_while_jobs_wait_are_kept_for_those_they_are_set_apart_for() -> None:
    pools = "pools:\n- {name: lab, gpus: ['late:*'], users: [daemon]}\ncluster: {total_gpus: 2}\n"
    box = Box(cluster(a=""), SETTINGS.format(gone_after="10m") + pools)
    box.up()
    try:
        box.until(lambda: {row["name"]: row["state"] for row in box.json("nodes", "--json")} == {"a": "ready"})
        jobs = [box.submit("--name", f"j{i}", "--", "sleep", "600") for i in range(4)]
        box.until(lambda: [box.job(job)["phase"] for job in jobs] == ["RUNNING"] * 2 + ["PENDING"] * 2)
        box.describe(cluster(a="", late=""))
        box.until(
            lambda: (
                {row["name"]: row["state"] for row in box.json("nodes", "--json")} == {"a": "ready", "late": "ready"}
            )
        )
        box.until(lambda: "2 in pool lab, which is not for this job" in box.ok("why", jobs[2]))
        log = box.home / "server.log"
        box.until(lambda: "cluster.total_gpus expects 2 GPUs, but there are 4" in log.read_text())
        box.ok("cancel", jobs[0])
        box.until_phase(jobs[2], "RUNNING")
        assert box.job(jobs[2])["devices"] == box.job(jobs[0])["devices"]
        assert box.job(jobs[3])["phase"] == "PENDING"
        by_index = box.home / "by-index.yaml"
        by_index.write_text("pools:\n- {name: lab, gpus: [1], users: [daemon]}\n")
        refused = box.run("config", "check", str(by_index))
        assert refused.returncode == 2
        assert "GPU 1 may be of any of the 2 nodes; write the node too, such as gpus: [a:1]" in refused.stderr
    finally:
        box.discard()


def test_the_page_on_clusters_runs_as_it_is_written(new_box: Callable[[str], Box]) -> None:
    # What is said of hosts is tried on hosts (tests/engines/hosts).
    page = (REPOSITORY / "docs" / "clusters.md").read_text().partition("\n## Try it without hosts\n")[2]
    lines = re.findall(r"^\$ (corral .*)$", page, re.MULTILINE)
    assert len(lines) > 15
    box = new_box(cluster(a=""))
    env = {**box.env, "PATH": f"{Path(CORRAL).parent}:{os.environ['PATH']}"}
    for line in lines:
        done = subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, env=env, cwd=REPOSITORY, timeout=COMMAND_S
        )
        assert done.returncode == 0, f"{line}: {done.stderr}"
    assert [row["state"] for row in box.json("nodes", "--json")] == ["ready"] * 4
