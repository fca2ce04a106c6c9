"""A server over nodes keeps its promises through faults, and a promise that it breaks is told."""

from pathlib import Path

import pytest

from corral.clock import ManualClock
from corral.config import Settings
from corral.core.model.errors import LedgerFailed
from corral.core.model.home import Home
from corral.core.model.jobs.submission import Submission
from corral.core.model.runs.launch import Launch
from corral.sim.faults import faulty_node
from corral.sim.faults.faulty_node import WitnessedRuntime
from corral.sim.faults.faulty_server import FaultyServer
from corral.sim.faults.life import SOMEBODY, simulate

pytestmark = pytest.mark.long


def test_a_life_with_faults_ends_with_every_job_accounted_for() -> None:
    found = simulate(nodes=2, gpus=3, jobs=40, seed=1)
    assert found["guarantees_broken"] == []
    assert sum(found["ended"].values()) == found["jobs"] >= 40
    assert {"come", "end", "give_up", "mishap", "return", "kill"} <= set(found["events"])


def test_a_life_has_full_disks_and_wrong_clocks_too() -> None:
    happened = {name for seed in (4, 5) for name in simulate(nodes=2, gpus=2, jobs=15, seed=seed)["events"]}
    assert {"fill_disk", "fill_ledger", "set_clock", "drift"} <= happened


def test_a_server_whose_disk_is_full_writes_nothing_until_there_is_room(tmp_path: Path) -> None:
    clock = ManualClock(1000.0)
    server = FaultyServer(Home(tmp_path), {}, clock, Settings())
    try:
        server.fill_disk()
        work = [Submission(("true",)) for _ in range(200)]
        with pytest.raises(LedgerFailed, match="is full; nothing was written"):
            server.service.submit(work, SOMEBODY)
        assert not server.ledger.view().jobs
        server.clear_disk()
        assert len(server.service.submit(work, SOMEBODY)) == 200
    finally:
        server.close()


# `make soak` lives 2,000 of them.
@pytest.mark.parametrize("tens", range(5))
def test_fifty_short_lives_break_no_promise(tens: int) -> None:
    broken = {}
    for seed in range(10 * tens, 10 * tens + 10):
        broken[seed] = simulate(nodes=3, gpus=2, jobs=4, seed=seed)["guarantees_broken"]
    assert {seed: told for seed, told in broken.items() if told} == {}


def test_work_that_runs_twice_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Twice(WitnessedRuntime):
        def launch(self, launch: Launch) -> None:
            super().launch(launch)
            self.lose_record(launch.id)
            super().launch(launch)

    monkeypatch.setattr(faulty_node, "WitnessedRuntime", Twice)
    assert any("ran 2 times" in told for told in simulate(gpus=2, jobs=10, seed=7)["guarantees_broken"])
