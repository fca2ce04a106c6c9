"""Logs are read where they are, and work on them waits for no other node."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.core.control.querying.member_logs import MemberLogs
from corral.core.model.devices.device import Silence
from corral.core.model.errors import Conflict, NodeUnreachable
from corral.core.model.fact import JobChanged, SilenceObserved
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.ports.ledger import Decided
from corral.core.ports.node import LogChunk
from tests.core.control.cluster import Cluster, on, until


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, "a", "b")
    yield cluster
    cluster.close()


def thread_of(logs: MemberLogs, job: Job) -> str:
    """The name of the thread on which something is done with a job's logs."""
    names: list[str] = []
    done = threading.Event()

    def note() -> None:
        names.append(threading.current_thread().name)
        done.set()

    logs.on_node(job, note)
    assert done.wait(60)
    return names[0]


def test_each_member_has_its_log_on_the_node_where_it_runs(cluster: Cluster) -> None:
    cluster.run(1, on("a", 0), on("b", 0))
    logs = MemberLogs(cluster.ledger, cluster.registry, cluster.clock)
    assert [logs.agent_of(cluster.job(1), rank) for rank in range(2)] == [cluster.nodes["a"], cluster.nodes["b"]]


def test_a_job_that_has_ended_has_its_log_where_it_ran_last(cluster: Cluster) -> None:
    cluster.run(1, on("b", 0))
    cluster.nodes["b"].runtime.finish("1.1")
    until(lambda: cluster.phase(1).terminal)
    assert MemberLogs(cluster.ledger, cluster.registry, cluster.clock).agent_of(cluster.job(1), 0) is cluster.nodes["b"]


class Logged:
    """A log of 100 bytes on a node, and from where on it was written lately."""

    def __init__(self, cluster: Cluster, start: int | None) -> None:
        node = cluster.nodes["a"]
        node.logs.read = lambda job_id, rank, offset, max_bytes, mark: LogChunk("", 100)  # type: ignore[method-assign]
        node.logs.written_since = lambda job_id, rank, ago_s, mark: start  # type: ignore[method-assign]
        self.cluster = cluster

    def since(self, ago_s: float) -> int:
        (log,) = MemberLogs(self.cluster.ledger, self.cluster.registry, self.cluster.clock).of(self.cluster.job(1))
        return log.written_since(self.cluster.clock.now() - ago_s)


def test_where_a_log_was_written_lately_is_as_its_node_knows(cluster: Cluster) -> None:
    cluster.run(1, on("a", 0))
    assert Logged(cluster, 40).since(10.0) == 40


def test_without_marks_a_job_that_runs_for_seconds_is_shown_whole_and_one_that_ended_before_not_at_all(
    cluster: Cluster,
) -> None:
    cluster.run(1, on("a", 0))
    logged = Logged(cluster, None)
    assert logged.since(0.0) == 0
    cluster.nodes["a"].runtime.finish("1.1")
    until(lambda: cluster.phase(1).terminal)
    assert logged.since(-10.0) == 100


def test_without_marks_nothing_is_made_up_about_a_job_that_runs_for_long(cluster: Cluster) -> None:
    cluster.run(1, on("a", 0))
    began = cluster.job(1).started_at
    assert began is not None
    change = JobChanged("1", {"started_at": began - 3600}, at=began, by="test")
    cluster.ledger.commit(lambda _: Decided((change,), None)).result()
    logged = Logged(cluster, None)
    with pytest.raises(Conflict, match=r"the log of job 1 has no times of its lines.*--tail"):
        logged.since(60.0)
    assert logged.since(7200.0) == 0


def test_a_job_that_was_never_launched_has_no_log_and_neither_has_a_node_that_has_left(cluster: Cluster) -> None:
    logs = MemberLogs(cluster.ledger, cluster.registry, cluster.clock)
    assert logs.agent_of(Job("9", 9, JobSpec("ann", ("true",)), 0.0), 0) is None
    cluster.run(1, on("b", 0))
    cluster.registry.add("c", cluster.nodes["a"])
    cluster.registry.remove("b")
    assert logs.agent_of(cluster.job(1), 0) is None


def test_logs_on_one_node_are_worked_on_by_its_thread_and_those_on_several_by_none_of_theirs(cluster: Cluster) -> None:
    cluster.run(1, on("b", 0), on("b", 1))
    cluster.run(2, on("a", 0), on("b", 2))
    logs = MemberLogs(cluster.ledger, cluster.registry, cluster.clock)
    assert thread_of(logs, cluster.job(1)) == "node-b"
    assert thread_of(logs, cluster.job(2)) == threading.current_thread().name


def observe(cluster: Cluster, node: str, silence: Silence | None) -> None:
    cluster.ledger.observe([SilenceObserved(node, silence)])
    cluster.ledger.commit(lambda _: Decided((), None)).result()


def test_a_node_that_is_known_not_to_answer_is_not_asked_for_a_log(cluster: Cluster) -> None:
    cluster.run(1, on("a", 0), on("b", 0))
    logs = MemberLogs(cluster.ledger, cluster.registry, cluster.clock)
    observe(cluster, "b", Silence(1.0, "node b has not answered since 14:20:31"))
    on_a, on_b = logs.of(cluster.job(1))
    assert on_a.read(0) == b""
    with pytest.raises(
        NodeUnreachable,
        match=r"rank 1, .* gets no requests now: node b has not answered since "
        r"14:20:31",
    ):
        on_b.read(0)
    assert logs.agent_of(cluster.job(1), 1) is None


def test_a_node_that_has_just_come_back_is_asked_for_a_log(cluster: Cluster) -> None:
    cluster.run(1, on("b", 0))
    observe(cluster, "b", Silence(1.0, "node b has just come", answers=True))
    assert MemberLogs(cluster.ledger, cluster.registry, cluster.clock).of(cluster.job(1))[0].read(0) == b""
