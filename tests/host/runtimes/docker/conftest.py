"""The dockerd that all tests share, as this room's find it."""

from collections.abc import Iterator

import pytest

from tests.docker.daemon import DockerDaemon


@pytest.fixture
def docker_host(dockerd: DockerDaemon, monkeypatch: pytest.MonkeyPatch) -> Iterator[DockerDaemon]:
    """The daemon, as the one that Docker's clients of this test find; the test is in its network."""
    monkeypatch.setenv("DOCKER_HOST", dockerd.address)
    with dockerd.network():
        yield dockerd
