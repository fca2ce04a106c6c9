"""A server keeps its promises through faults, and a promise that it breaks is told."""

import pytest

from corral.model.launch import Launch
from corral.runtimes.simulated import SimulatedRuntime
from corral.sim import life
from corral.sim.life import simulate


def test_a_life_with_faults_ends_with_every_job_accounted_for() -> None:
    found = simulate(gpus=3, jobs=40, seed=1)
    assert found["broken"] == []
    assert sum(found["ended"].values()) == found["jobs"] >= 40
    assert {"come", "end", "restart", "sicken"} <= set(found["events"])


def test_work_that_runs_twice_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Twice(SimulatedRuntime):
        def launch(self, launch: Launch) -> None:
            self.ran.append(launch.job.id)
            super().launch(launch)

    monkeypatch.setattr(life, "SimulatedRuntime", Twice)
    assert any("ran 2 times and was launched 1 times" in told for told in simulate(gpus=2, jobs=10, seed=7)["broken"])
