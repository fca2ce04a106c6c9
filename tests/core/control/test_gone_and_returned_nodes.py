"""A node that comes is brought together with the ledger, and nothing runs twice."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from corral.clock import SystemClock
from corral.core.access.caller import Caller
from corral.core.control.nodes import node_workers
from corral.core.control.nodes.gone_and_returned_nodes import LeftBehind
from corral.core.model.errors import BackendFailed
from corral.core.model.fact import ConditionObserved, NodeObserved, NodeRemoved
from corral.core.model.home import Home
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.submission import Submission
from corral.core.model.runs.launch import Launch, LaunchPhase
from corral.core.model.view import View
from corral.core.ports.ledger import Decided
from corral.core.ports.node import Reconciled, Reports
from corral.host.node.mock.simulated_node import SimulatedNode
from corral.host.runtimes.simulated import SimulatedRuntime
from corral.sim.faults.live_server import LiveServer
from tests.core.control.cluster import Cluster, on, until
from tests.core.control.strategies import box


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, "a", "b")
    yield cluster
    cluster.close()


def come(cluster: Cluster, node: str) -> None:
    """The node comes, and is reconciled."""
    cluster.recovery.node_returned(node, 1)
    assert cluster.recovery.wait(60.0)


@contextmanager
def busy_ledger(cluster: Cluster) -> Iterator[None]:
    """Nothing that is put to the ledger meanwhile is seen by anybody before the end."""
    begun, go_on = threading.Event(), threading.Event()

    def decide(_: View) -> Decided[bool]:
        begun.set()
        return Decided((), go_on.wait(60.0))

    cluster.ledger.commit(decide)
    # Its batch is complete once it is decided: all that comes later is written together.
    assert begun.wait(60.0)
    yield
    go_on.set()


def test_what_runs_is_adopted_and_what_ended_meanwhile_is_recorded(cluster: Cluster) -> None:
    cluster.run(1, on("a", 0))
    cluster.run(2, on("a", 1))
    cluster.stop()
    cluster.nodes["a"].runtime.finish("2.1", 3)
    cluster.start()
    come(cluster, "a")
    assert (cluster.phase(1), cluster.phase(2)) == (Phase.RUNNING, Phase.FAILED)
    cluster.nodes["a"].runtime.finish("1.1")
    until(lambda: cluster.phase(1) is Phase.SUCCEEDED)


def test_what_a_former_server_committed_and_nobody_launched_waits_again(cluster: Cluster) -> None:
    cluster.commit(1, on("a", 0))
    come(cluster, "a")
    assert (cluster.phase(1), cluster.job(1).attempts) == (Phase.PENDING, 0)
    assert cluster.nodes["a"].runtime.ran == []


def test_a_node_is_told_which_devices_are_held_though_its_inventory_has_come_only_just_now(cluster: Cluster) -> None:
    cluster.run(1, on("a", 0))
    inventory = cluster.ledger.view().nodes["a"]
    cluster.stop()
    cluster.ledger.observe([NodeRemoved("a")])
    cluster.ledger.commit(lambda _: Decided((), None)).result()
    cluster.start()
    early = cluster.dispatcher.attempts.of("1.1")
    assert early is not None
    assert early.launches[0].uses == ()

    held: list[Launch] = []
    reconcile = cluster.nodes["a"].launches.reconcile

    def told(launches: tuple[Launch, ...], waiting: tuple[str, ...]) -> Reconciled:
        held.extend(launches)
        return reconcile(launches, waiting)

    cluster.nodes["a"].launches.reconcile = told  # type: ignore[method-assign, assignment]
    with busy_ledger(cluster):
        cluster.ledger.observe([NodeObserved(inventory)])
        cluster.recovery.node_returned("a", 1)
        time.sleep(0.1)
    assert cluster.recovery.wait(60.0)
    assert [use.device.uuid for launch in held for use in launch.uses] == ["a-0"]


def test_a_gang_that_was_half_launched_is_stopped_and_waits_again(cluster: Cluster) -> None:
    allocation_id = cluster.commit(1, on("a", 0), on("b", 0))
    attempt = cluster.dispatcher.attempts.of(allocation_id)
    assert attempt is not None
    cluster.nodes["a"].runtime.launch(attempt.launches[0])
    cluster.stop()
    cluster.start()
    come(cluster, "a")
    come(cluster, "b")
    until(lambda: cluster.phase(1) is Phase.PENDING)
    until(lambda: cluster.nodes["a"].runtime.report("1.1").phase is LaunchPhase.UNKNOWN)


def test_what_the_ledger_does_not_know_is_ended(cluster: Cluster) -> None:
    cluster.run(1, on("a", 0))
    attempt = cluster.dispatcher.attempts.of("1.1")
    assert attempt is not None
    cluster.nodes["b"].runtime.launch(attempt.launches[0])
    come(cluster, "b")
    assert cluster.nodes["b"].runtime.launches() == ()
    assert cluster.phase(1) is Phase.RUNNING


def test_the_jobs_of_a_node_that_is_gone_are_lost_and_say_that_they_may_still_run(cluster: Cluster) -> None:
    cluster.run(1, on("a", 0))
    cluster.run(2, on("b", 0))
    cluster.nodes["a"].fall_silent()
    cluster.recovery.node_gone("a")
    until(lambda: cluster.phase(1) is Phase.LOST)
    assert "node a does not answer any more, and attempt 1.1 may still run there" in str(cluster.job(1).reason)
    assert cluster.phase(2) is Phase.RUNNING


def test_a_job_of_a_node_that_is_gone_is_retried_and_the_old_attempt_ends_when_the_node_returns(
    cluster: Cluster,
) -> None:
    cluster.run(1, on("a", 0), retries=1)
    cluster.nodes["a"].fall_silent()
    cluster.recovery.node_gone("a")
    until(lambda: cluster.phase(1) is Phase.PENDING)
    assert cluster.nodes["a"].runtime.report("1.1").phase is LaunchPhase.RUNNING
    assert "attempt 1.1 may still run there" in str(cluster.recovery.left_behind.warning("1"))
    cluster.nodes["a"].answer_again()
    come(cluster, "a")
    assert cluster.recovery.left_behind.warning("1") is None
    assert cluster.nodes["a"].runtime.launches() == ()
    assert cluster.phase(1) is Phase.PENDING


def test_what_was_committed_as_its_node_was_found_to_be_gone_is_not_left_there(cluster: Cluster) -> None:
    with busy_ledger(cluster):
        committed = cluster.commit_soon(1, on("a", 0))
        cluster.recovery.node_gone("a")
    committed.result()
    until(lambda: cluster.phase(1) is Phase.LOST)


def test_what_is_given_up_as_its_node_returns_is_ended_there(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.run(1, on("a", 0))
    monkeypatch.setattr(cluster.dispatcher.outcomes, "settle", lambda attempt, by: None)  # which takes its time
    with busy_ledger(cluster):
        cluster.recovery.node_gone("a")
        cluster.recovery.node_returned("a", 2)
    assert cluster.recovery.wait(60.0)
    assert cluster.nodes["a"].runtime.launches() == ()


def test_what_ran_on_a_node_that_a_new_server_does_not_have_is_lost(cluster: Cluster) -> None:
    cluster.run(1, on("a", 0))
    cluster.run(2, on("b", 0))
    cluster.stop()
    gone = cluster.nodes.pop("a")
    cluster.start()
    cluster.recovery.give_up_absent_nodes()
    until(lambda: cluster.phase(1) is Phase.LOST)
    reason = "node a is not part of this cluster any more, and attempt 1.1 may still run there"
    assert (cluster.job(1).reason, cluster.phase(2)) == (reason, Phase.RUNNING)
    gone.close()


def leave(cluster: Cluster, node: str) -> None:
    """The node is not part of the cluster any more, and its engine still speaks for it."""
    cluster.registry.departed = cluster.nodes.get
    cluster.registry.remove(node)
    cluster.recovery.node_left(node)


def unheard(cluster: Cluster, node: str, number: int) -> None:
    """A job has ended there, and nobody has told of it yet."""
    cluster.nodes[node].runtime.on_event = lambda _: None
    cluster.nodes[node].runtime.finish(f"{number}.1")


def test_what_had_ended_on_a_node_that_leaves_is_recorded_and_the_rest_is_lost(cluster: Cluster) -> None:
    cluster.run(1, on("a", 0))
    cluster.run(2, on("a", 1))
    unheard(cluster, "a", 1)
    leave(cluster, "a")
    until(lambda: cluster.phase(2) is Phase.LOST)
    assert cluster.phase(1) is Phase.SUCCEEDED
    assert "node a is not part of this cluster any more" in str(cluster.job(2).reason)
    # What it left is forgotten there, though it never comes back.
    until(lambda: cluster.nodes["a"].runtime.report("1.1").phase is LaunchPhase.UNKNOWN)


def test_a_launch_that_was_not_claimed_when_its_node_left_is_made_elsewhere(cluster: Cluster) -> None:
    cluster.commit(1, on("a", 0))
    leave(cluster, "a")
    until(lambda: cluster.phase(1) is Phase.PENDING)
    assert cluster.job(1).attempts == 0


def test_nothing_is_lost_before_it_is_known_what_became_of_it(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.run(1, on("a", 0))
    unheard(cluster, "a", 1)
    cluster.nodes["a"].fall_silent()
    leave(cluster, "a")
    until(lambda: "node a, which has left, are asked for again" in caplog.text)
    assert cluster.phase(1) is Phase.RUNNING
    cluster.nodes["a"].answer_again()

    def recorded() -> bool:
        cluster.recovery.try_again()
        return cluster.phase(1) is not Phase.RUNNING

    until(recorded)
    assert cluster.phase(1) is Phase.SUCCEEDED


def test_a_node_that_leaves_and_comes_at_once_returns_without_its_jobs(cluster: Cluster) -> None:
    cluster.run(1, on("a", 0))
    cluster.run(2, on("a", 1))
    unheard(cluster, "a", 1)
    with busy_ledger(cluster):
        leave(cluster, "a")
        cluster.registry.add("a", cluster.nodes["a"])
        cluster.recovery.node_returned("a", 2)
    assert cluster.recovery.wait(60.0)
    assert (cluster.phase(1), cluster.phase(2)) == (Phase.SUCCEEDED, Phase.LOST)
    until(lambda: cluster.nodes["a"].runtime.launches() == ())


def test_what_ended_on_a_node_while_no_server_ran_is_recorded_though_the_node_has_left(cluster: Cluster) -> None:
    cluster.run(1, on("a", 0))
    cluster.stop()
    node = cluster.nodes.pop("a")
    node.runtime.finish("1.1", 3)
    cluster.start()
    cluster.registry.departed = {"a": node}.get
    cluster.recovery.give_up_absent_nodes()
    until(lambda: cluster.phase(1) is Phase.FAILED)
    node.close()


def test_a_node_that_has_left_is_not_reconciled_over_and_over(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.registry.remove("a")
    for _ in range(2):
        cluster.recovery.node_returned("a", 1)
        assert cluster.recovery.wait(60.0)
        cluster.recovery.try_again()
        assert cluster.recovery.wait(60.0)
    assert caplog.text.count("node a cannot be reconciled") == 2


def test_a_node_that_reports_of_other_launches_than_it_was_asked_for_is_not_believed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.run(1, on("a", 0))
    monkeypatch.setattr(cluster.nodes["a"].launches, "reports", lambda launch_ids: Reports(0.0, ()))
    with pytest.raises(BackendFailed, match=r"node a reports of other launches than 1\.1"):
        cluster.dispatcher.read(cluster.nodes["a"], cluster.dispatcher.attempts.on("a"))


def test_when_one_node_of_a_gang_is_gone_its_other_members_are_stopped(cluster: Cluster) -> None:
    cluster.run(1, on("a", 0), on("b", 0))
    cluster.nodes["b"].fall_silent()
    cluster.recovery.node_gone("b")
    until(lambda: cluster.phase(1) is Phase.LOST)
    until(lambda: cluster.nodes["a"].runtime.report("1.1").phase is LaunchPhase.UNKNOWN)


def test_a_launch_that_a_silent_node_was_never_asked_for_did_not_run(cluster: Cluster) -> None:
    cluster.run(1, on("b", 0))
    allocation_id = cluster.commit(2, on("a", 0), on("b", 1))
    attempt = cluster.dispatcher.attempts.of(allocation_id)
    assert attempt is not None
    attempt.asked_at[1] = 0.0
    attempt.take(1, replace(attempt.report(1), phase=LaunchPhase.DECLARED_LOST))
    cluster.recovery.node_gone("a")
    until(lambda: cluster.phase(2) is Phase.PENDING)
    assert cluster.job(2).attempts == 0


def test_times_of_a_node_whose_clock_differs_are_the_servers(cluster: Cluster) -> None:
    node = cluster.nodes["a"]

    class Behind(type(node)):  # type: ignore[misc]
        def reports(self, launch_ids: tuple[str, ...]) -> Reports:
            told = super().reports(launch_ids)
            behind = tuple(replace(one, started_at=(one.started_at or 0.0) - 500.0) for one in told.reports)
            return Reports(told.now - 500.0, behind)

    node.__class__ = Behind
    before = cluster.clock.now()
    cluster.run(1, on("a", 0))
    started_at = cluster.job(1).started_at
    assert started_at is not None
    assert abs(started_at - before) < 60


def test_a_node_for_which_too_much_waits_is_reconciled_later(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.commit(1, on("a", 0))
    with monkeypatch.context() as full:
        full.setattr(node_workers, "MAX_WAITING", 0)
        come(cluster, "a")
    assert cluster.phase(1) is Phase.STARTING
    cluster.recovery.try_again()
    assert cluster.recovery.wait(60.0)
    assert cluster.phase(1) is Phase.PENDING


def full_disk(cluster: Cluster, *, full: bool) -> None:
    """The ledger's database may not grow, or may grow again."""
    with cluster.ledger.database.writing() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages if full else 1 << 30}")


def gone_while_the_disk_is_full(cluster: Cluster) -> None:
    """A node is given up in the same transaction as facts for which the disk has no room."""
    full_disk(cluster, full=True)
    with busy_ledger(cluster):
        submissions = [cluster.commit_soon(100 + number, on("b", 0)) for number in range(40)]
        cluster.recovery.node_gone("a")
    assert all(submission.exception(60.0) for submission in submissions)
    full_disk(cluster, full=False)


def test_a_node_that_goes_while_the_ledgers_disk_is_full_is_given_up_once_there_is_room(cluster: Cluster) -> None:
    cluster.run(1, on("a", 0))
    gone_while_the_disk_is_full(cluster)
    assert cluster.phase(1) is Phase.RUNNING
    cluster.recovery.try_again()
    until(lambda: cluster.phase(1) is Phase.LOST)


def test_a_node_that_came_back_meanwhile_is_not_given_up(cluster: Cluster) -> None:
    cluster.run(1, on("a", 0))
    gone_while_the_disk_is_full(cluster)
    come(cluster, "a")
    cluster.recovery.try_again()
    cluster.ledger.commit(lambda _: Decided((), None)).result()
    assert cluster.phase(1) is Phase.RUNNING


BOX = box(1)


def test_each_node_that_an_attempt_was_given_up_on_is_named_until_it_returns() -> None:
    left_behind = LeftBehind()
    left_behind.add("4", "b", "attempt 4.1-1 may still run on b")
    left_behind.add("4", "a", "attempt 4.1 may still run on a")
    left_behind.add("5", "b", "attempt 5.1 may still run on b")
    assert left_behind.warning("4") == "attempt 4.1 may still run on a; attempt 4.1-1 may still run on b"
    left_behind.ended_on("b")
    assert left_behind.warning("4") == "attempt 4.1 may still run on a"
    assert left_behind.warning("5") is None


def test_a_job_that_is_tried_again_says_that_the_old_attempt_may_still_run(tmp_path: Path) -> None:
    clock = SystemClock()
    observed = [NodeObserved(BOX.nodes["box"]), *map(ConditionObserved, BOX.conditions.values())]
    server = LiveServer(Home(tmp_path), {"box": SimulatedNode(SimulatedRuntime(clock), clock)}, observed)
    submission = Submission(("true",), request=Request(devices=1), retries=1)
    (job_id,) = server.service.submit([submission], Caller("alice", 1000, 1000, (1000,)))
    until(lambda: server.ledger.view().jobs[job_id].phase is Phase.RUNNING)
    server.core.recovery.node_gone("box")
    until(lambda: server.ledger.view().jobs[job_id].launches == 2)
    assert f"attempt {job_id}.1 may still run there" in server.service.explanations.of(job_id).reason
    server.close()
