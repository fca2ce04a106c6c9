"""Nodes that are emptied: what runs there goes on until the deadline, and then back to its queue."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.core.control.querying.listing_rows import node_rows
from corral.core.control.watching.draining import DrainWatch
from corral.core.ledger.store import SqlLedger, open_ledger
from corral.core.model.fact import Fact, NodeCordoned, NodeDraining, NodeUncordoned
from corral.core.model.jobs.job import Job, JobKind
from corral.core.model.jobs.phase import Phase
from corral.core.ports.ledger import Decided
from corral.core.scheduling.planner import Planner
from tests.core.scheduling.lab import T0, box, ended, job, observed, started, submitted


class Rig:
    """Two nodes, of which one is busy with the job that it is given, over a real ledger."""

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path / 'ledger.db'}"
        self.ledger: SqlLedger = open_ledger(self.url)
        self.clock = ManualClock(T0)
        self.stopped: list[str] = []
        self.watch = DrainWatch(self.ledger, self.clock, self.stopped.append)
        self.ledger.observe(observed(box("a", 2), box("b", 2)))  # type: ignore[arg-type]

    def write(self, *facts: object) -> None:
        self.ledger.commit(lambda _: Decided(facts, None)).result()  # type: ignore[arg-type]

    def run(self, *jobs: Job) -> None:
        self.write(*submitted(*jobs))
        for start in Planner(self.ledger.view()).plan(T0).starts:
            self.write(*started(start))

    def drain(self, node: str, deadline_s: float | None) -> None:
        deadline = None if deadline_s is None else T0 + deadline_s
        self.write(NodeDraining(node, "kernel", deadline, by="root", at=T0))

    def look(self, after_s: float) -> list[str]:
        self.clock.advance(after_s)
        self.watch.look()
        return self.stopped

    def phase(self, job_id: str) -> Phase:
        return self.ledger.view().jobs[job_id].phase

    def state(self, node: str) -> tuple[str, str | None]:
        row = next(row for row in node_rows(self.ledger.view(), ()) if row.name == node)
        return row.state, row.reason


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.ledger.close()


def test_what_runs_goes_on_until_the_deadline_and_then_back_to_its_queue(rig: Rig) -> None:
    rig.run(job(1, 2, node="a"), job(2, 2, node="b"))
    rig.drain("a", 60)
    assert rig.look(59) == []
    assert rig.look(1) == ["1.1"]
    assert (rig.phase("1"), rig.phase("2")) == (Phase.STOPPING, Phase.RUNNING)
    stopped = rig.ledger.view().jobs["1"]
    assert (stopped.stop_reason, stopped.reason) == (Phase.PENDING, "node a is drained by root: kernel")
    assert rig.look(60) == ["1.1"], "it is told once"


def test_a_job_with_a_checkpoint_signal_has_its_notice_within_the_deadline(rig: Rig) -> None:
    told = job(1, 1, node="a")
    rig.run(
        replace(told, spec=replace(told.spec, checkpoint_signal="USR1", checkpoint_grace_s=20.0)), job(2, 1, node="a")
    )
    rig.drain("a", 60)
    assert rig.look(39) == []
    assert rig.look(1) == ["1.1"]
    assert rig.look(19) == ["1.1"]
    assert rig.look(1) == ["1.1", "2.1"]


def test_without_a_deadline_what_runs_goes_on(rig: Rig) -> None:
    rig.run(job(1, 2, node="a"))
    rig.drain("a", None)
    assert rig.look(1e6) == []


def test_nothing_starts_on_a_node_that_is_drained_and_when_it_is_given_back_it_does(rig: Rig) -> None:
    rig.drain("a", 60)
    rig.run(job(1, 2, node="a"))
    assert rig.phase("1") is Phase.PENDING
    rig.write(NodeUncordoned("a", by="root", at=T0))
    rig.run()
    assert rig.phase("1") is Phase.RUNNING


def test_a_node_is_draining_until_it_is_empty_and_then_drained(rig: Rig) -> None:
    rig.run(job(1, 1, node="a"))
    rig.drain("a", None)
    assert rig.state("a") == ("draining", "draining, 1 job left, by root: kernel")
    rig.write(*ended("1"))
    assert rig.state("a") == ("cordoned", "drained by root: kernel")


def test_a_gang_that_has_a_member_there_goes_back_as_a_whole_and_once(rig: Rig) -> None:
    rig.run(job(1, 2, gang_size=2, spread=True))
    rig.drain("a", 0)
    rig.drain("b", 0)
    assert rig.look(0) == ["1.1"]


def test_a_reservation_stays_for_it_cannot_run_again(rig: Rig) -> None:
    rig.run(job(1, 2, node="a", kind=JobKind.RESERVE))
    rig.drain("a", 0)
    assert rig.look(1) == []
    assert rig.state("a")[0] == "draining"


@pytest.mark.parametrize(
    "later",
    [
        lambda: NodeCordoned("a", "stays", by="root", at=T0 + 1),
        lambda: NodeUncordoned("a", by="root", at=T0 + 1),
        lambda: NodeDraining("a", "kernel", T0 + 1e9, by="root", at=T0 + 1),
    ],
)
def test_the_last_word_about_a_node_counts(rig: Rig, later: Callable[[], Fact]) -> None:
    rig.run(job(1, 2, node="a"))
    rig.drain("a", 60)
    rig.write(later())
    assert rig.look(100) == []


def test_a_drain_and_its_deadline_outlast_the_server(rig: Rig) -> None:
    rig.drain("a", 60)
    rig.write(NodeCordoned("b", "fan", by="root", at=T0))
    before = rig.ledger.view().node_cordons
    rig.ledger.close()
    rig.ledger = open_ledger(rig.url)
    assert rig.ledger.view().node_cordons == before
