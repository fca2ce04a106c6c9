"""The dockerd that all tests share, as this room's find it."""

import pytest

from tests.docker.daemon import DockerDaemon


@pytest.fixture
def docker_host(dockerd: DockerDaemon, monkeypatch: pytest.MonkeyPatch) -> DockerDaemon:
    """The daemon, as the one that Docker's clients of this test find."""
    monkeypatch.setenv("DOCKER_HOST", dockerd.address)
    return dockerd
