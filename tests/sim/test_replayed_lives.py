"""Lives with faults run again: gangs, retries, cancelled jobs, nodes that left; from any moment, under any policy."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from corral.core.ledger.database import Database
from corral.core.ledger.reader import Reader
from corral.core.model.fact import Fact
from corral.core.scheduling.policy import POLICIES
from corral.features.replays.replay import replay
from corral.sim.faults import life
from corral.sim.replays.journal import read_journal
from corral.sim.reports.history import History
from tests.features.replays.test_replay import ORDER

PARTS = (0.0, 0.5)


@pytest.mark.parametrize("seed", [3, 7])
def test_any_part_of_a_life_can_be_run_again(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cuts: list[tuple[float, float, Sequence[Fact]]] = []

    def read(url: str) -> tuple[Fact, ...]:
        facts = read_journal(url)
        first, last = facts[0].at, facts[-1].at
        database = Database(url)
        for part in PARTS:
            since = first + part * (last - first)
            cuts.append((since, last, Reader(database).facts_between(since, last, most_jobs=1000)))
        database.close()
        return facts

    monkeypatch.setattr(life, "read_journal", read)
    life.simulate(gpus=4, jobs=30, seed=seed, history=History())
    for since, until, facts in cuts:
        policies = ("configured", "fcfs/none", "fair-share/conservative", "las")
        order = replace(ORDER, policies=policies, since=since, until=until, now=until)
        result = replay(facts, order, POLICIES, lambda done, total: None)
        assert len(result.courses) == 5
        for course in result.courses:
            assert (course.jobs, course.unfinished) == (result.courses[0].jobs, 0)
            assert max(course.allocated) <= result.gpus
