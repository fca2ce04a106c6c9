"""A node with two described devices, whose every process is gone when the test ends."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from corral.clock import SystemClock
from corral.config import Settings
from corral.model.allocation import Grant
from corral.model.device import Device
from corral.model.home import Home
from corral.model.job import Job, JobSpec
from corral.model.launch import DeviceUse, Launch, LaunchPhase, LaunchReport
from corral.model.tenant import Tenant
from corral.node.local import LocalNode
from corral.ports.node import NodeAgent

OVER = (LaunchPhase.EXITED, LaunchPhase.DEAD, LaunchPhase.DECLARED_LOST)
EVENT_S = 40.0
"""What has not happened by then will not."""

SETTINGS = Settings(kill_grace_s=0.2, sample_interval_s=0.2)

MOCK = "\n".join(
    f'[[devices]]\nmother_uuid = "GPU-{i}"\nmodel_name = "Mock A100"\nmemory_size = "80G"' for i in range(2)
)


def until(true: Callable[[], object], what: str) -> None:
    """Wait until it is; fail saying what never was."""
    deadline = time.monotonic() + EVENT_S
    while not true():
        assert time.monotonic() < deadline, f"not within {EVENT_S} s: {what}"
        time.sleep(0.01)


def a_launch(number: int, *command: str, attempt: int = 1, rank: int = 0, uuid: str | None = None) -> Launch:
    """A launch of a job with this number, with the whole of a device where one is named."""
    job = Job(str(number), number, JobSpec("alice", command, env=(("PATH", "/usr/bin:/bin"),)), 0.0)
    uses: tuple[DeviceUse, ...] = ()
    if uuid is not None:
        device = Device(uuid, int(uuid.rpartition("-")[2]), "Mock A100", 81920)
        uses = (DeviceUse(device, None, (), Tenant(job.id, "alice", Grant(uuid, 1000))),)
    return Launch(f"{number}.{attempt}", job, job.spec.env, rank=rank, members=rank + 1, uses=uses)


class Host:
    """One home on this host, whose agent can be closed and started again. `kind` is how it is spoken to."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.mock = home.root / "mock.toml"
        self.mock.write_text(MOCK)
        self.node = self.start()

    def start(self) -> NodeAgent:
        """Start the agent."""
        self.node = LocalNode(self.home, SETTINGS, SystemClock(self.home.clock_file), mock=self.mock, name="here")
        return self.node

    def end(self) -> None:
        """End the agent; what it launched runs on."""
        self.node.close()

    def report(self, launch_id: str) -> LaunchReport:
        return self.node.reports((launch_id,)).reports[0]

    def phase(self, launch_id: str) -> LaunchPhase:
        return self.report(launch_id).phase

    def wait(self, launch_id: str, *phases: LaunchPhase) -> LaunchReport:
        """The report of a launch once it is in one of these phases."""
        until(lambda: self.phase(launch_id) in phases, f"launch {launch_id} {' or '.join(phases)}")
        return self.report(launch_id)

    def log(self, name: str) -> str:
        path = self.home.logs / f"{name}.log"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def home() -> Iterator[Home]:
    """A home with a path that is short enough for sockets."""
    root = Path(tempfile.mkdtemp(prefix="node-"))
    yield Home(root)
    shutil.rmtree(root)


@pytest.fixture
def host(home: Home) -> Iterator[Host]:
    host = Host(home)
    yield host
    host.node.reconcile((), ())
    until(lambda: not any(home.launches.iterdir()), "every launch is ended")
    host.end()


def finished(launch: Launch) -> Launch:
    """The launch as the ledger has it once its job runs."""
    return replace(launch, job=replace(launch.job, started_at=1.0))
