"""Every member of a job that goes back to its queue is told for whom, and when it is expected to go on."""

import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

from corral.core.control.telling.stop_notes import StopNotes
from corral.core.lifecycle import commands, stopping
from corral.core.model.fact import Fact
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.certainty import Certainty
from corral.core.model.placing.eviction import EvictionRule
from corral.core.model.placing.plan import Evict
from corral.core.model.view import View
from corral.core.ports.ledger import Decided
from corral.core.scheduling.forecast import ExpectedStart
from tests.core.control.cluster import Cluster, on, until


class Told(Cluster):
    """Jobs on two nodes, whose forecasts the test makes, and when they are made."""

    def start(self) -> None:
        super().start()
        self.expected = ExpectedStart()
        self.later: list[Callable[[], object]] = []
        notes = StopNotes(self.ledger, self.registry, self.clock, forecast=self.forecast, later=self.later.append)
        self.dispatcher._tell = notes.tell

    def forecast(self, view: View, now: float, wanted: Collection[str]) -> dict[str, ExpectedStart]:
        return dict.fromkeys(wanted, self.expected)

    def stopped(self, step: Callable[[View], list[Fact]]) -> None:
        self.ledger.commit(lambda view: Decided(tuple(step(view)), None)).result()
        self.dispatcher.stop("1.1")

    def lines(self, node: str) -> list[tuple[str, int, str]]:
        return self.nodes[node].notes


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    told = Told(tmp_path, "a", "b")
    yield told
    told.close()


def evicted(view: View) -> list[Fact]:
    eviction = Evict("1", "9", "job 9 is more urgent", EvictionRule.PRIORITY)
    return stopping.evict(view.jobs["1"], eviction, by="test", at=1.0)


WHY = "preempted for job 9: job 9 is more urgent; it goes back to its place in the queue"


def test_members_on_other_nodes_are_told_too_and_nobody_waits_for_the_forecast(told: Told) -> None:
    told.run(1, on("a", 0), on("b", 0), retries=1)
    told.stopped(evicted)
    until(lambda: told.phase(1) is Phase.PENDING)
    assert (told.lines("a"), told.lines("b")) == ([("1", 0, WHY)], [("1", 1, WHY)])
    told.expected = ExpectedStart(told.clock.now() + 7201, certainty=Certainty.EXPECTATION)
    for task in told.later:
        task()
    until(lambda: len(told.lines("a")) == len(told.lines("b")) == 2)
    assert re.fullmatch(r"it is expected to go on within 2h( 0m| 1s)?, by \d{4}-.*", told.lines("b")[1][2])


def test_a_start_that_is_not_known_is_said_not_to_be(told: Told) -> None:
    told.run(1, on("a", 0))
    told.stopped(evicted)
    until(lambda: told.later)
    told.later[0]()
    until(lambda: len(told.lines("a")) == 2)
    assert told.lines("a")[1][2] == "its next start is not known yet; `corral why` will show it"


def test_a_job_that_is_cancelled_is_told_nothing_and_one_that_is_requeued_by_whom(told: Told) -> None:
    told.run(1, on("a", 0))
    told.stopped(lambda view: commands.cancel(view, view.jobs["1"], by="bob", at=1.0))
    until(lambda: told.phase(1) is Phase.CANCELLED)
    assert told.lines("a") == []
    told.run(2, on("a", 0))
    told.ledger.commit(
        lambda view: Decided(tuple(commands.requeue(view, view.jobs["2"], by="bob", at=1.0)), None)
    ).result()
    told.dispatcher.stop("2.1")
    until(lambda: told.lines("a"))
    assert told.lines("a")[0][2] == "stopped: requeued by bob; it goes back to its place in the queue"


def test_a_job_whose_time_limit_the_server_had_to_keep_is_told_so(told: Told) -> None:
    told.run(1, on("a", 0), on("b", 0))
    told.stopped(lambda view: stopping.stop(view.jobs["1"], Phase.TIMED_OUT, "its time limit of 2h", by="test", at=1.0))
    until(lambda: told.phase(1) is Phase.TIMED_OUT)
    assert (told.lines("a"), told.lines("b")) == (
        [("1", 0, "stopped: its time limit of 2h")],
        [("1", 1, "stopped: its time limit of 2h")],
    )
    assert told.later == []
