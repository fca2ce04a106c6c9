"""The server, which has threads, unmounts what a runner left without a fork of its own."""

import os
from pathlib import Path

import pytest

from corral.host.runtimes.docker import container_runtime, released_volumes
from corral.host.runtimes.docker.daemon_calls import process
from corral.host.runtimes.docker.opened_volumes import Wanted, is_staged, release, stage
from corral.host.runtimes.docker.records import HostUser
from tests.docker.daemon import DockerDaemon

NAME = "corral-test-released"


@pytest.fixture
def left(open_directory: Path, docker_host: DockerDaemon) -> str:
    """The name of a container for which something is mounted."""
    stage(NAME, [Wanted(str(open_directory))], HostUser(65534, 65533, []), [str(open_directory)], process())
    return NAME


def test_what_a_runner_left_is_unmounted_without_a_fork_that_runs_python(
    left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forked() -> int:
        raise AssertionError("a server with threads forks itself")

    monkeypatch.setattr(os, "fork", forked)
    container_runtime._release(left)
    assert not is_staged(left, process())


def test_a_helper_that_takes_too_long_is_not_waited_for(
    left: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(released_volumes, "_RELEASED_S", 0.0)
    container_runtime._release(left)
    assert "are not removed" in caplog.text
    release(left, process())
    assert not is_staged(left, process())
