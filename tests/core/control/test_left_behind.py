"""What was given up on a node and may still run there is told until the node returns."""

from pathlib import Path

from corral.clock import SystemClock
from corral.core.access.caller import Caller
from corral.core.control.launching.left_behind import LeftBehind
from corral.core.model.fact import ConditionObserved, NodeObserved
from corral.core.model.home import Home
from corral.core.model.jobs.job import Request
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.submission import Submission
from corral.host.node.mock.simulated_node import SimulatedNode
from corral.host.runtimes.simulated import SimulatedRuntime
from corral.sim.faults.live_server import LiveServer
from tests.core.control.cluster import until
from tests.core.control.strategies import box

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
