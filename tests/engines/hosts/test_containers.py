"""Containers on joined hosts: they run where Docker does, and a host on which it does not run says so."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker.daemon import why_no_dockerd
from tests.docker.image import IMAGE
from tests.e2e.box import until_there
from tests.engines.hosts.ssh_pool import SshPool
from tests.hosts_lab.agents import await_agent, start_agent
from tests.hosts_lab.docker import HostDocker
from tests.hosts_lab.lab import why_no_lab

WHY_NOT = why_no_lab() or why_no_dockerd()
pytestmark = [pytest.mark.long, pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))]


class DockerPool(SshPool):
    """Docker is installed on the host a alone, and runs there."""

    def __init__(self) -> None:
        super().__init__()
        self.docker = HostDocker(self.host("a"), self.shared)
        self.signal_agent("a", signal.SIGKILL)
        self.start_agent_with_docker()

    def start_agent_with_docker(self) -> None:
        """Start the agent of a, which finds the Docker there."""
        start_agent(self.host("a"), environ=HostDocker.environ)
        await_agent(self.host("a"))


@pytest.fixture(scope="module")
def pool() -> Iterator[DockerPool]:
    made = DockerPool()
    try:
        made.up()
        made.all_ready()
        yield made
    finally:
        made.discard()


def test_a_container_runs_on_the_host_that_has_docker_with_its_gpus_logs_commands_and_end(pool: DockerPool) -> None:
    script = f"echo $CORRAL_NODE $NVIDIA_VISIBLE_DEVICES; {until_there(Path('/tmp/gate'))}; exit 7"
    words = ("--image", IMAGE, "--prefer", "zone=b", "--gpus", "2")
    job = pool.submit(*words, "--", "sh", "-c", script)
    pool.until_phase(job, "RUNNING")
    pool.until(lambda: "a GPU-a-0,GPU-a-1" in pool.ok("logs", job))
    assert pool.ok("exec", job, "--", "sh", "-c", "echo inside $CORRAL_JOB_ID") == f"inside {job}\n"
    pool.signal_agent("a", signal.SIGKILL)
    pool.start_agent_with_docker()
    pool.kill()
    pool.up()
    pool.all_ready()
    pool.ok("exec", job, "--", "sh", "-c", ">/tmp/gate")
    ended = pool.ended(job)
    assert (ended["phase"], ended["exit_code"], ended["attempts"]) == ("FAILED", 7, 1)
    assert pool.docker.docker("ps", "--all", "--quiet") == ""


def test_while_docker_is_stopped_there_containers_pass_over_the_host_and_say_why(pool: DockerPool) -> None:
    pool.docker.stop()
    job = pool.submit("--image", IMAGE, "--node", "a,b", "--", "sh", "-c", ":")
    pool.until(
        lambda: "1 node cannot run containers: Docker does not run there" in " ".join(pool.ok("why", job).split())
    )
    assert "1 node cannot run containers: Docker is not installed there" in " ".join(pool.ok("why", job).split())
    assert "on GPU-a-" in pool.ok("run", "--node", "a", "--", "sh", "-c", "echo on $CUDA_VISIBLE_DEVICES")
    assert (pool.job(job)["phase"], pool.job(job)["attempts"]) == ("PENDING", 0)
    pool.docker.start()
    ended = pool.ended(job)
    assert (ended["phase"], ended["attempts"]) == ("SUCCEEDED", 1)
