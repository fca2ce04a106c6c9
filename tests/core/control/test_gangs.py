"""A gang runs, ends and is stopped as one, on however many nodes it is."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral.core.lifecycle import commands
from corral.core.model.errors import BackendFailed
from corral.core.model.jobs.phase import Phase
from corral.core.model.runs.launch import Launch, LaunchPhase
from corral.core.ports.ledger import Decided
from corral.host.runtimes.simulated import SimulatedRuntime
from tests.core.control.cluster import Cluster, on, until


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, "a", "b")
    yield cluster
    cluster.close()


def runtime(cluster: Cluster, node: str) -> SimulatedRuntime:
    return cluster.nodes[node].runtime


def test_every_member_is_launched_on_its_node_and_told_the_same_meeting_place(cluster: Cluster) -> None:
    cluster.run(1, on("a", 0), on("a", 1), on("b", 0))
    assert runtime(cluster, "a").launches() == ("1.1", "1.1-1")
    assert runtime(cluster, "b").launches() == ("1.1-2",)
    attempt = cluster.dispatcher.attempts.of("1.1")
    assert attempt is not None
    assert [launch.rank for launch in attempt.launches] == [0, 1, 2]


def test_no_other_member_is_launched_while_the_first_ones_agent_answers_at_the_meeting_place(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, go_on = threading.Event(), threading.Event()
    launch = runtime(cluster, "a").launch

    def slow(work: Launch) -> None:
        asked.set()
        assert go_on.wait(20)
        launch(work)

    monkeypatch.setattr(runtime(cluster, "a"), "launch", slow)
    cluster.dispatcher.launch(cluster.commit(1, on("a", 0), on("b", 0)))
    assert asked.wait(20)
    attempt, done = cluster.dispatcher.attempts.of("1.1"), threading.Event()
    assert attempt is not None
    # What b was to do for this user has been done before this.
    cluster.registry.worker("b").put(done.set, attempt.user)
    assert done.wait(20)
    others = runtime(cluster, "b").launches()
    go_on.set()
    assert others == ()
    until(lambda: runtime(cluster, "b").launches() == ("1.1-1",))


def test_a_gang_has_succeeded_when_its_last_member_has(cluster: Cluster) -> None:
    cluster.run(1, on("a", 0), on("b", 0))
    runtime(cluster, "a").finish("1.1")
    until(lambda: cluster.dispatcher.attempts.of("1.1").is_over(0))  # type: ignore[union-attr]
    assert cluster.phase(1) is Phase.RUNNING
    runtime(cluster, "b").finish("1.1-1")
    until(lambda: cluster.phase(1) is Phase.SUCCEEDED)


def test_when_a_member_fails_the_others_are_stopped_and_its_exit_code_is_the_jobs(cluster: Cluster) -> None:
    cluster.run(1, on("a", 0), on("b", 0))
    runtime(cluster, "b").finish("1.1-1", exit_code=7)
    until(lambda: cluster.phase(1) is Phase.FAILED)
    job = cluster.job(1)
    assert (job.exit_code, job.reason) == (7, "rank 1 on b exited with 7")
    assert cluster.ledger.view().allocations == {}


def swept_until(cluster: Cluster, true: Callable[[], object]) -> None:
    """Recheck until it has come about."""

    def swept() -> object:
        cluster.dispatcher.recheck()
        return true()

    until(swept)


def test_when_a_member_dies_the_gang_is_lost(cluster: Cluster) -> None:
    cluster.run(1, on("a", 0), on("b", 0))
    runtime(cluster, "b").die("1.1-1")
    until(lambda: cluster.phase(1) is Phase.LOST)


def test_a_gang_whose_nodes_do_not_reach_its_meeting_place_does_not_start_and_says_which(cluster: Cluster) -> None:
    cluster.nodes["b"].unreached = "No route to host"
    cluster.dispatcher.launch(cluster.commit(1, on("a", 0), on("b", 0), on("b", 1)))
    until(lambda: cluster.phase(1) is Phase.PENDING)
    reason = cluster.job(1).reason or ""
    assert "node b cannot reach 127.0.0.1:29500, where the gang's members meet on node a: No route to host" in reason
    assert cluster.ledger.view().allocations == {}
    cluster.nodes["b"].unreached = None
    cluster.run(2, on("a", 0), on("b", 0))


def test_members_on_one_node_meet_there_untried(cluster: Cluster) -> None:
    cluster.nodes["a"].unreached = "No route to host"
    cluster.run(1, on("a", 0), on("a", 1))


def test_when_a_member_cannot_be_launched_none_runs_and_the_gang_waits_again(cluster: Cluster) -> None:
    class Full(SimulatedRuntime):
        def launch(self, launch: Launch) -> None:
            raise BackendFailed("no space left for the launch")

    cluster.nodes["b"].runtime = Full(cluster.clock)
    cluster.dispatcher.launch(cluster.commit(1, on("a", 0), on("b", 0)))
    until(lambda: cluster.phase(1) is Phase.PENDING)
    assert cluster.job(1).reason == "rank 1 on b: no space left for the launch"
    assert cluster.job(1).attempts == 0
    until(lambda: runtime(cluster, "a").report("1.1").phase is LaunchPhase.UNKNOWN)


def test_a_gang_of_which_only_a_part_begins_is_taken_back(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corral.core.control.launching.dispatcher.HALF_BEGUN_S", 0.05)
    cluster.nodes["b"].runtime.launch = lambda launch: None  # type: ignore[method-assign]
    cluster.dispatcher.launch(cluster.commit(1, on("a", 0), on("b", 0)))
    swept_until(cluster, lambda: cluster.phase(1) is Phase.PENDING)
    assert cluster.job(1).attempts == 0
    until(lambda: runtime(cluster, "a").report("1.1").phase is LaunchPhase.UNKNOWN)


def test_a_gang_that_a_former_server_launched_in_part_is_taken_back_while_its_other_node_is_silent(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corral.core.control.launching.dispatcher.HALF_BEGUN_S", 0.05)
    attempt = cluster.dispatcher.attempts.of(cluster.commit(1, on("a", 0), on("b", 0)))
    assert attempt is not None
    runtime(cluster, "a").launch(attempt.launches[0])
    cluster.stop()
    cluster.nodes["b"].fall_silent()
    cluster.start()
    cluster.recovery.node_returned("a", 1)
    swept_until(cluster, lambda: runtime(cluster, "a").report("1.1").phase is LaunchPhase.EXITED)
    assert cluster.phase(1) is Phase.STARTING, "nobody knows whether it began on b"


def test_a_gang_that_is_cancelled_is_stopped_everywhere(cluster: Cluster) -> None:
    cluster.run(1, on("a", 0), on("b", 0))
    cluster.ledger.commit(
        lambda view: Decided(tuple(commands.cancel(view, view.jobs["1"], by="alice", at=0.0)), None)
    ).result()
    cluster.dispatcher.stop("1.1")
    until(lambda: cluster.phase(1) is Phase.CANCELLED)
    until(lambda: not runtime(cluster, "a").launches() and not runtime(cluster, "b").launches())


def test_a_node_that_hangs_delays_no_other(cluster: Cluster) -> None:
    cluster.nodes["a"].fall_silent()
    cluster.dispatcher.launch(cluster.commit(1, on("a", 0)))
    cluster.run(2, on("b", 0))
    assert cluster.phase(1) is Phase.STARTING
    cluster.nodes["a"].answer_again()
    cluster.dispatcher.recheck()
    until(lambda: cluster.phase(1) is Phase.RUNNING)
    assert runtime(cluster, "a").ran == ["1"]
