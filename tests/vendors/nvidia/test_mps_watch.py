"""Who is told when an MPS daemon dies, and who is left alone."""

from collections.abc import Callable
from pathlib import Path

import pytest

from corral.core.model.devices.device import Device
from corral.core.model.devices.means import Means
from corral.vendors.nvidia.mps import Mps
from corral.vendors.nvidia.mps_daemon import MpsHealth, MpsState
from corral.vendors.nvidia.mps_watch import MpsWatch

RUNNING, DOWN, HUNG = MpsHealth(MpsState.RUNNING, 77), MpsHealth(MpsState.DOWN, None), MpsHealth(MpsState.HUNG, 77)
FAULT = MpsHealth(MpsState.FAULT, 77, "a client's fault")
DEVICE = Device("GPU-m", 0, "NVIDIA A100", 81920, means=Means.MPS)


class StagedMps(Mps):
    """MPS whose daemon's health is what the test says; something may happen while it is asked."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))
        self.now = RUNNING
        self.meanwhile: Callable[[], None] = lambda: None
        self.restarts = 0

    def health(self, device: Device) -> MpsHealth:
        self.meanwhile()
        return self.now

    def prepare(self, device: Device) -> None:
        self.restarts += 1


class Watched:
    """Two launches on an MPS device that run, and what was told of them: the device, and who is lost with it."""

    def __init__(self) -> None:
        self.mps = StagedMps()
        self.lost: list[tuple[str, tuple[str, ...]]] = []
        self.run = ["1.1", "2.1"]
        self.watch = MpsWatch(self.mps, self.clients, lambda uuid, _, launches: self.lost.append((uuid, launches)))

    def clients(self) -> dict[str, tuple[Device, tuple[str, ...]]]:
        return {DEVICE.uuid: (DEVICE, tuple(self.run))} if self.run else {}


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_daemon_that_is_well_is_left_alone(watched: Watched) -> None:
    watched.watch.look()
    watched.watch.look()
    assert (watched.lost, watched.mps.restarts) == ([], 0)


@pytest.mark.parametrize("health", [DOWN, FAULT, HUNG])
def test_when_it_fails_its_clients_are_told_of_and_it_is_started_afresh(watched: Watched, health: MpsHealth) -> None:
    watched.watch.look()
    watched.mps.now = health
    watched.watch.look()
    assert watched.lost == [("GPU-m", ("1.1", "2.1"))]
    assert watched.mps.restarts == 1


def test_another_daemon_in_its_place_means_that_its_clients_are_lost(watched: Watched) -> None:
    watched.watch.look()
    watched.mps.now = MpsHealth(MpsState.RUNNING, 78)
    watched.watch.look()
    assert watched.lost == [("GPU-m", ("1.1", "2.1"))]
    assert watched.mps.restarts == 0


def test_a_daemon_that_was_stopped_after_its_last_client_has_not_failed(watched: Watched) -> None:
    watched.watch.look()
    watched.mps.meanwhile, watched.mps.now = watched.run.clear, DOWN
    watched.watch.look()
    assert (watched.lost, watched.mps.restarts) == ([], 0)
