"""The agents of a mock cluster: one for each node, all gone with their server, their jobs not."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from corral.core.model.errors import BackendFailed, Refused
from corral.core.model.home import Home
from corral.core.model.runs.launch import LaunchPhase
from corral.host.node.mock.spawn import AgentSpawner
from corral.host.node.remote import AgentSocket, RemoteNode
from tests.host.node.conftest import CONFIG, EVENT_S, OVER, a_launch, until

NOBODY = 65534

CLUSTER = """
[[nodes]]
name = "a"
[[nodes.devices]]
mother_uuid = "GPU-a"
model_name = "Mock A100"
memory_size = "80G"

[[nodes]]
name = "b"
devices = []
"""


@pytest.fixture
def spawner(home: Home) -> Iterator[AgentSpawner]:
    (home.root / "mock.toml").write_text(CLUSTER)
    home.config_file.write_text(CONFIG)
    umask = os.umask(0o077)
    spawner = AgentSpawner(home, mock=home.root / "mock.toml", config=home.config_file)
    os.umask(umask)
    yield spawner
    spawner.close()


def ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(EVENT_S * 1000))


def test_each_node_has_an_agent_of_its_own(spawner: AgentSpawner) -> None:
    found = {}
    for path in spawner.start(["a", "b"]).values():
        node = RemoteNode(AgentSocket(path))
        told = node.news.since(0, EVENT_S).node
        assert told is not None
        found[told.name] = [device.uuid for device in told.devices]
        node.close()
    assert found == {"a": ["GPU-a"], "b": []}
    assert spawner.pid("a") != spawner.pid("b")


def test_an_agent_that_lives_is_left_as_it_is_and_one_that_died_is_started_again(spawner: AgentSpawner) -> None:
    spawner.start(["a", "b"])
    before = spawner.pid("a"), spawner.pid("b")
    open_files = len(os.listdir("/proc/self/fd"))
    handle = os.pidfd_open(before[1])
    os.kill(before[1], signal.SIGKILL)
    assert ended(handle)
    os.close(handle)
    spawner.start(["a", "b"])
    assert spawner.pid("a") == before[0]
    assert spawner.pid("b") != before[1]
    assert len(os.listdir("/proc/self/fd")) == open_files


def test_jobs_find_their_server_and_outlive_their_agent(spawner: AgentSpawner, home: Home) -> None:
    node = RemoteNode(AgentSocket(spawner.start(["a"])["a"]))
    node.launches.reconcile((), ())
    node.launches.launch(a_launch(1, "sh", "-c", 'echo "$CORRAL_HOME"; sleep 600'))
    log = home.root / "nodes" / "a" / "logs" / "1.log"
    until(lambda: log.exists() and f"{home.root}\n" in log.read_text(), "the job tells where its server is")
    node.close()
    spawner.end("a")
    node = RemoteNode(AgentSocket(spawner.start(["a"])["a"]))
    assert node.launches.reports(("1.1",)).reports[0].phase is LaunchPhase.RUNNING
    assert node.launches.reconcile((), ()).unknown == ("1.1",)
    until(lambda: not any((log.parent.parent / "launches").iterdir()), "the job is ended")
    node.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs jobs as others")
def test_a_job_of_another_user_has_its_scratch_whatever_the_umask_of_the_server(
    spawner: AgentSpawner, home: Home
) -> None:
    home.root.chmod(0o755)
    node = RemoteNode(AgentSocket(spawner.start(["a"])["a"]))
    launch = a_launch(1, "sh", "-c", 'touch "$CORRAL_SCRATCH/mine"', uuid="GPU-a")
    spec = replace(launch.job.spec, uid=NOBODY, gid=NOBODY)
    node.launches.reconcile((), ())
    node.launches.launch(replace(launch, job=replace(launch.job, spec=spec)))
    until(lambda: node.launches.reports(("1.1",)).reports[0].phase in OVER, "the job ends")
    assert node.launches.reports(("1.1",)).reports[0].exit_code == 0
    node.close()


def test_an_agent_that_cannot_start_says_why(spawner: AgentSpawner, home: Home) -> None:
    (home.root / "mock.toml").write_text("no = toml = at all")
    with pytest.raises(BackendFailed, match=r"the agent of node a did not come up: .*mock\.toml"):
        spawner.start(["a"])


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\n", "-a", "a" * 64])
def test_a_name_that_names_no_directory_is_refused(spawner: AgentSpawner, name: str) -> None:
    with pytest.raises(Refused, match="cannot be the name of a node"):
        spawner.start([name])


SERVER = """
import sys, time
from pathlib import Path

from corral.core.model.home import Home
from corral.host.node.mock.spawn import AgentSpawner
home = Home(Path(sys.argv[1]))
spawner = AgentSpawner(home, mock=home.root / "mock.toml", config=home.config_file)
spawner.start(["a", "b"])
print(spawner.pid("a"), spawner.pid("b"), flush=True)
time.sleep(600)
"""


def test_the_agents_of_a_server_that_was_killed_end(home: Home) -> None:
    (home.root / "mock.toml").write_text(CLUSTER)
    with subprocess.Popen([sys.executable, "-c", SERVER, str(home.root)], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        handles = [os.pidfd_open(int(pid)) for pid in server.stdout.readline().split()]
        server.kill()
    assert len(handles) == 2
    for handle in handles:
        assert ended(handle)
        os.close(handle)


def test_an_agent_that_hangs_as_its_server_is_killed_gives_way_to_the_next(home: Home) -> None:
    (home.root / "mock.toml").write_text(CLUSTER)
    with subprocess.Popen([sys.executable, "-c", SERVER, str(home.root)], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        hung, _ = (os.pidfd_open(int(pid)) for pid in server.stdout.readline().split())
        signal.pidfd_send_signal(hung, signal.SIGSTOP)
        server.kill()
    with closing(AgentSpawner(home, mock=home.root / "mock.toml", config=home.config_file)) as spawner:
        node = RemoteNode(AgentSocket(spawner.start(["a"])["a"]))
        assert node.news.since(0, EVENT_S).node is not None
        node.close()
    assert ended(hung)
    os.close(hung)
