"""Running jobs are told to save at their interval, and the server knows what they have saved."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.control.watching.checkpoint_rounds import CheckpointRounds, is_due
from corral.core.model.jobs.job import Job, JobSpec
from tests.core.control.cluster import Cluster, on, until

SAVES = JobSpec("alice", ("train",), checkpoint_signal="USR1", checkpoint_every_s=600.0)


def running(spec: JobSpec = SAVES) -> Job:
    return Job("1", 1, spec, 0.0, started_at=1000.0)


@pytest.mark.parametrize(
    ("since", "now", "due"),
    [
        (1000.0, 1001.0, False),
        (1598.0, 1599.5, False),
        (1599.5, 1600.5, True),
        (1600.5, 1601.5, False),
        (2199.5, 2200.0, True),
        (900.0, 1001.0, False),
        (900.0, 1601.0, True),
    ],
)
def test_a_job_is_told_whenever_it_has_run_for_another_interval(since: float, now: float, due: bool) -> None:
    assert is_due(running(), since, now) is due


@given(st.lists(st.floats(0.01, 2000.0), min_size=1, max_size=30))
def test_however_late_the_rounds_come_a_job_is_told_at_most_once_an_interval(pauses: list[float]) -> None:
    since, told = 1000.0, 0
    for pause in pauses:
        told += is_due(running(), since, since + pause)
        since += pause
    assert told <= (since - 1000.0) // 600.0


def test_a_job_without_an_interval_or_that_has_not_begun_is_never_told() -> None:
    assert not is_due(running(replace(SAVES, checkpoint_every_s=None)), 1000.0, 9000.0)
    assert not is_due(replace(running(), started_at=None), 1000.0, 9000.0)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, "a", "b")
    yield cluster
    cluster.close()


def rounds(cluster: Cluster) -> CheckpointRounds:
    return CheckpointRounds(cluster.ledger, cluster.dispatcher.attempts, cluster.registry, cluster.clock)


def test_the_members_of_a_gang_that_the_signal_is_for_are_told_and_no_other_job(cluster: Cluster) -> None:
    cluster.run(1, on("a", 0), on("b", 0), checkpoint_signal="USR1", checkpoint_every_s=0.001)
    cluster.run(2, on("a", 1), on("b", 1), checkpoint_signal="B:USR2", checkpoint_every_s=0.001)
    cluster.run(3, on("a", 2), checkpoint_signal="USR1")
    watch = rounds(cluster)
    watch.look()
    assert [node.signals for node in cluster.nodes.values()] == [[], []]
    time.sleep(0.002)
    watch.look()
    until(lambda: cluster.nodes["a"].signals == [("1.1", "USR1"), ("2.1", "B:USR2")])
    until(lambda: cluster.nodes["b"].signals == [("1.1-1", "USR1")])


def test_the_server_knows_when_the_last_checkpoint_was_named_while_its_node_says_so(cluster: Cluster) -> None:
    cluster.run(1, on("a", 0), checkpoint_signal="USR1")
    cluster.run(2, on("b", 0), checkpoint_dir="/saved")
    cluster.run(3, on("b", 1))
    now = cluster.clock.now()
    cluster.nodes["a"].saved_at["1.1"] = now - 30.0
    cluster.nodes["b"].saved_at["3.1"] = now
    watch = rounds(cluster)

    def seen() -> dict[str, float]:
        cluster.dispatcher.recheck()
        watch.look()
        return dict(cluster.ledger.view().saved)

    until(lambda: seen() == {"1.1": now - 30.0})
    cluster.nodes["a"].saved_at["1.1"] = now - 29.0
    cluster.dispatcher.recheck()
    assert seen() == {"1.1": now - 30.0}, "the same one, by its age at another moment"
    cluster.nodes["a"].saved_at["1.1"] = now
    until(lambda: seen() == {"1.1": now})
    cluster.nodes["a"].saved_at.clear()
    until(lambda: seen() == {})
