"""What containers of others are called is found out beside the sampling, and is text that others chose."""

import time
from typing import Any

import pytest

from corral.core.model.devices.device import ContainerOfOthers
from corral.host.runtimes.docker.containers_of_others import ContainerNames, called
from tests.docker.daemon import DockerDaemon
from tests.docker.image import IMAGE

WITHIN_S = 60.0


def test_a_container_is_named_soon_after_it_was_asked_for_and_one_that_docker_does_not_know_never(
    docker_host: DockerDaemon,
) -> None:
    container = docker_host.docker("create", "--name", "named", IMAGE, "env").strip()
    names = ContainerNames()
    unknown = "0" * 64
    assert names.of(unknown) is None
    until = time.monotonic() + WITHIN_S
    while (found := names.of(container)) is None:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert found == ContainerOfOthers("named", IMAGE)
    assert names.of(unknown) is None
    docker_host.docker("rm", "named")


def test_where_there_is_no_docker_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    names = ContainerNames()
    assert names.of("1" * 64) is None
    assert names.of("1" * 64) is None


@pytest.mark.parametrize(
    ("found", "name"),
    [
        ({"Name": "/\x1b[2Jgone", "Config": {"Image": "a\u202eb"}}, ContainerOfOthers(r"\x1b[2Jgone", r"a\u202eb")),
        ({"Name": "/" + "x" * 5000, "Config": {"Image": ""}}, ContainerOfOthers("x" * 200, "?")),
        ({"Name": None, "Config": None}, None),
        (None, None),
    ],
)
def test_its_words_tell_nothing_to_a_terminal_and_fill_no_page(
    found: dict[str, Any] | None, name: ContainerOfOthers | None
) -> None:
    assert called(found) == name
