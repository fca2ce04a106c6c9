"""What an image says of itself is read from a real Docker; one that is not there has no facts."""

import pytest

from corral.core.model.errors import BackendFailed
from corral.host.runtimes.docker.images import local_image
from tests.docker.daemon import DockerDaemon
from tests.docker.image import IMAGE


def test_an_image_of_this_host_says_what_it_needs(docker_host: DockerDaemon) -> None:
    made = docker_host.docker("create", "--env", "CUDA_VERSION=12.4.1", "--env", "TOKEN=secret", IMAGE, "sleep", "1")
    docker_host.docker("commit", made.strip(), "test/cuda:1")
    facts = local_image("test/cuda:1")
    assert facts is not None
    assert (facts.variables, facts.command) == ({"CUDA_VERSION": "12.4.1"}, ("sleep", "1"))
    assert local_image("test/not-there:1") is None


def test_without_docker_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///no/such/docker.sock")
    assert local_image(IMAGE) is None
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    with pytest.raises(BackendFailed, match="does not tell of image test/train:1"):
        local_image(IMAGE)
