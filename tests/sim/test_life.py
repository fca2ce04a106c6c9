"""A server over nodes keeps its promises through faults, and a promise that it breaks is told."""

import pytest

from corral.core.model.runs.launch import Launch
from corral.sim.faults import faulty_node
from corral.sim.faults.faulty_node import WitnessedRuntime
from corral.sim.faults.life import simulate

pytestmark = pytest.mark.long


def test_a_life_with_faults_ends_with_every_job_accounted_for() -> None:
    found = simulate(nodes=2, gpus=3, jobs=40, seed=1)
    assert found["guarantees_broken"] == []
    assert sum(found["ended"].values()) == found["jobs"] >= 40
    assert {"come", "end", "give_up", "mishap", "return", "kill"} <= set(found["events"])


def test_a_life_has_full_disks_and_wrong_clocks_too() -> None:
    happened = {name for seed in range(4) for name in simulate(nodes=2, gpus=2, jobs=15, seed=seed)["events"]}
    assert {"fill_disk", "set_clock", "drift"} <= happened


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
