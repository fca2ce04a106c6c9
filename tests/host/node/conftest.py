"""A node with two mock devices, in this process or in one of its own; its jobs are gone when the test ends."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from corral.clock import SystemClock
from corral.config import load_settings
from corral.core.model.devices.device import Device
from corral.core.model.errors import NodeUnreachable
from corral.core.model.home import Home
from corral.core.model.jobs.job import Job, JobSpec
from corral.core.model.placing.allocation import Grant
from corral.core.model.placing.tenant import Tenant
from corral.core.model.runs.launch import DeviceUse, Launch, LaunchPhase, LaunchReport
from corral.host.node.local import LocalNode
from corral.host.node.remote import AgentSocket, RemoteNode
from tests.loaded import Agent, loaded

OVER = (LaunchPhase.EXITED, LaunchPhase.DEAD, LaunchPhase.DECLARED_LOST)
EVENT_S = 40.0
"""What has not happened by then will not."""

CONFIG = "kill_grace: 0.2s\nsample_interval: 0.2s\n"

MOCK = "\n".join(
    f'[[devices]]\nmother_uuid = "GPU-{i}"\nmodel_name = "Mock A100"\nmemory_size = "80G"' for i in range(2)
)


def until(true: Callable[[], object], what: str) -> None:
    """Wait until it is; fail saying what never was."""
    deadline = time.monotonic() + EVENT_S
    while not true():
        assert time.monotonic() < deadline, f"not within {EVENT_S} s: {what}"
        time.sleep(0.01)


def a_launch(number: int, *command: str, rank: int = 0, uuid: str | None = None) -> Launch:
    """A launch of a job with this number, with the whole of a device where one is named."""
    job = Job(str(number), number, JobSpec("alice", command, env=(("PATH", "/usr/bin:/bin"),)), 0.0)
    uses: tuple[DeviceUse, ...] = ()
    if uuid is not None:
        device = Device(uuid, 0, "Mock A100", 81920)
        uses = (DeviceUse(device, None, (), Tenant(job.id, "alice", Grant(uuid, 1000))),)
    return Launch(f"{number}.1", job, job.spec.env, rank=rank, members=rank + 1, uses=uses)


class Host:
    """One home on this host, whose agent, in this process, can be ended and started again."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.mock = home.root / "mock.toml"
        self.mock.write_text(MOCK)
        home.config_file.write_text(CONFIG)
        self.node = self.start()
        self.node.launches.reconcile((), ())

    def start(self) -> LocalNode | RemoteNode:
        """Start the agent."""
        clock = SystemClock(self.home.clock_file)
        self.node = LocalNode(self.home, load_settings(self.home.config_file), clock, mock=self.mock, name="here")
        return self.node

    def end(self) -> None:
        """End the agent; what it launched runs on."""
        self.node.close()

    def report(self, launch_id: str) -> LaunchReport:
        return self.node.launches.reports((launch_id,)).reports[0]

    def phase(self, launch_id: str) -> LaunchPhase:
        return self.report(launch_id).phase

    def wait(self, launch_id: str, *phases: LaunchPhase) -> LaunchReport:
        """The report of a launch once it is in one of these phases."""
        until(lambda: self.phase(launch_id) in phases, f"launch {launch_id} {' or '.join(phases)}")
        return self.report(launch_id)

    def log(self, name: str) -> str:
        path = self.home.logs / f"{name}.log"
        return path.read_text() if path.exists() else ""


class RemoteHost(Host):
    """The same with an agent in a process of its own, spoken to over its socket."""

    agent: "Agent | subprocess.Popen[bytes]"
    patience_s = EVENT_S

    @property
    def socket(self) -> Path:
        return self.home.root / "agent" / "agent.sock"

    def start(self) -> LocalNode | RemoteNode:
        self.agent = loaded().begin_agent(self.words("--node", "here"))
        self.node = RemoteNode(AgentSocket(self.socket), patience_s=self.patience_s)
        until(self.answers, "the agent answers")
        return self.node

    def words(self, *more: str) -> list[str]:
        """The words of its agent's command line."""
        return ["--home", str(self.home.root), "--socket", str(self.socket), "--mock", str(self.mock), *more]

    def answers(self) -> bool:
        try:
            self.node.news.since(0, 0.0)
        except NodeUnreachable:
            assert self.agent.poll() is None, "the agent has ended"
            return False
        return True

    def end(self) -> None:
        self.node.close()
        self.agent.terminate()
        assert self.agent.wait(EVENT_S) == 0


@pytest.fixture
def home() -> Iterator[Home]:
    """A home with a path that is short enough for sockets."""
    root = Path(tempfile.mkdtemp(prefix="node-"))
    yield Home(root)
    shutil.rmtree(root)


def ended(host: Host) -> None:
    """End the agent once everything that it launched is ended."""
    host.node.launches.reconcile((), ())
    until(lambda: not any(host.home.launches.iterdir()), "every launch is ended")
    until(lambda: not any(host.home.scratch.iterdir()), "all scratch is removed")
    host.end()


@pytest.fixture(params=[Host, RemoteHost], ids=["in-process", "agent"])
def host(request: pytest.FixtureRequest, home: Home) -> Iterator[Host]:
    host: Host = request.param(home)
    yield host
    ended(host)


@pytest.fixture
def remote(home: Home) -> Iterator[RemoteHost]:
    host = RemoteHost(home)
    yield host
    ended(host)


def finished(launch: Launch) -> Launch:
    """The launch as the ledger has it once its job runs."""
    return replace(launch, job=replace(launch.job, started_at=1.0))
