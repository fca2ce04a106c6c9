"""Whether containers can run on a host is seen without a call, and without starting a Docker that sleeps."""

import socket
from pathlib import Path

import pytest

from corral.host.runtimes.docker.presence import NOT_RUNNING, NOT_THERE, lack_of_docker


def test_docker_that_is_installed_runs_there_only_while_somebody_listens_at_its_socket(tmp_path: Path) -> None:
    path = tmp_path / "docker.sock"
    env = {"DOCKER_HOST": f"unix://{path}"}
    assert lack_of_docker(env) == NOT_RUNNING, "it was never started"
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(str(path))
        assert lack_of_docker(env) == NOT_RUNNING, "it begins to run"
        daemon.listen()
        assert lack_of_docker(env) is None
        daemon.setblocking(False)
        with_link = tmp_path / "link"
        with_link.symlink_to(tmp_path)
        assert lack_of_docker({"DOCKER_HOST": f"unix://{with_link}/docker.sock"}) is None
        with pytest.raises(BlockingIOError):
            # A look starts no daemon that waits for a call.
            daemon.accept()
    assert lack_of_docker(env) == NOT_RUNNING, "it was killed, and has left its socket"


def test_a_daemon_elsewhere_is_not_judged_and_a_host_without_docker_is_named_so(tmp_path: Path) -> None:
    assert lack_of_docker({"DOCKER_HOST": "tcp://docker.invalid:2376"}) is None
    if not Path("/var/run/docker.sock").exists():
        assert lack_of_docker({"PATH": str(tmp_path)}) == NOT_THERE
        (tmp_path / "dockerd").touch(mode=0o755)
        assert lack_of_docker({"PATH": str(tmp_path)}) == NOT_RUNNING
