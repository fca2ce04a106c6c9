"""Who is told when an MPS daemon dies, and who is left alone."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from corral.model.allocation import Grant
from corral.model.device import Device
from corral.model.job import Job, JobSpec
from corral.model.launch import DeviceUse, Launch
from corral.model.means import Means
from corral.model.tenant import Tenant
from corral.node.device_setup import DeviceSetup
from corral.node.mps_watch import MpsWatch
from corral.ports.node import ServiceLost
from corral.sharing.mps import Mps
from corral.sharing.mps_daemon import MpsHealth, MpsState

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
    """Two launches on an MPS device that run, and what was told of them."""

    def __init__(self) -> None:
        self.mps = StagedMps()
        self.lost: list[ServiceLost] = []
        self.run = ["1.1", "2.1"]
        devices = DeviceSetup({}, lambda: None)
        devices.restore([launch_on_it(number) for number in (1, 2)])
        self.watch = MpsWatch(self.mps, devices, running=self.running, lost=self.lost.append)

    def running(self, launch_ids: Sequence[str]) -> tuple[str, ...]:
        return tuple(launch_id for launch_id in launch_ids if launch_id in self.run)


def launch_on_it(number: int) -> Launch:
    job = Job(str(number), number, JobSpec("alice", ("true",)), 0.0)
    use = DeviceUse(DEVICE, None, (), Tenant(job.id, "alice", Grant("GPU-m", 500, 40960)))
    return Launch(f"{number}.1", job, (), uses=(use,))


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
    assert [(lost.uuid, lost.launches) for lost in watched.lost] == [("GPU-m", ("1.1", "2.1"))]
    assert watched.mps.restarts == 1


def test_another_daemon_in_its_place_means_that_its_clients_are_lost(watched: Watched) -> None:
    watched.watch.look()
    watched.mps.now = MpsHealth(MpsState.RUNNING, 78)
    watched.watch.look()
    assert [lost.launches for lost in watched.lost] == [("1.1", "2.1")]
    assert watched.mps.restarts == 0


def test_a_daemon_that_was_stopped_after_its_last_client_has_not_failed(watched: Watched) -> None:
    watched.watch.look()
    watched.mps.meanwhile, watched.mps.now = watched.run.clear, DOWN
    watched.watch.look()
    assert (watched.lost, watched.mps.restarts) == ([], 0)
