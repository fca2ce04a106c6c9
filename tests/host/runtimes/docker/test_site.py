from pathlib import Path

import pytest

from corral.core.model.errors import Forbidden, Refused
from corral.core.model.jobs.container import Container, parse_volume
from corral.core.model.jobs.job import Request
from corral.host.runtimes.docker.presence import no_docker
from corral.host.runtimes.docker.site import DockerSite


def asked(volume: str | None = None, **more: str) -> Container:
    return Container("repo/train:1", () if volume is None else (parse_volume(volume),), **more)  # type: ignore[arg-type]


def test_a_container_is_as_it_was_asked_for() -> None:
    wanted = asked("/data/a:/a:ro", network="none")
    assert DockerSite(("/data",)).settle(wanted) is wanted
    assert DockerSite().tolerations(wanted, Request()) == ()


@pytest.mark.parametrize(
    ("site", "wanted", "words"),
    [
        (DockerSite(), asked("/data:/data"), "does not show /data .* it allows none"),
        (DockerSite(("/data",)), asked("/database:/d"), "allowed are /data"),
        (DockerSite(), asked(network="host"), "does not let jobs use the network host; allowed are bridge, none"),
        (DockerSite(), asked(user="root"), "runs as the user who submits it"),
    ],
)
def test_what_the_site_does_not_allow_is_forbidden_with_what_it_does(
    site: DockerSite, wanted: Container, words: str
) -> None:
    with pytest.raises(Forbidden, match=words):
        site.settle(wanted)


@pytest.mark.parametrize(
    ("networks", "network", "words"),
    [
        (("bridge", "none"), None, "network bridge; this site allows no other .*ask for `host` there"),
        (("bridge", "host", "fabric"), "bridge", "network bridge; add --network host or --network fabric"),
        (("bridge", "none", "host"), "none", "network none; add --network host"),
    ],
)
def test_a_gang_whose_members_would_not_reach_each_other_is_refused_with_what_to_do(
    networks: tuple[str, ...], network: str | None, words: str
) -> None:
    wanted = Container("repo/train:1", network=network)
    assert DockerSite(networks=networks).settle(wanted, members=1) is wanted
    with pytest.raises(Refused, match=words):
        DockerSite(networks=networks).settle(wanted, members=2)


def test_a_gang_may_have_a_network_that_the_site_has_for_it() -> None:
    wanted = asked(network="host")
    assert DockerSite(networks=("host",)).settle(wanted, members=2) is wanted


def test_a_site_may_allow_more() -> None:
    site = DockerSite(("/",), ("host",), any_user=True)
    for wanted in (asked("/etc:/e"), asked(network="host"), asked(user="root")):
        assert site.settle(wanted) is wanted


@pytest.mark.parametrize(
    "wanted", [Container(), asked("pvc/data:/data"), asked(service_account="a"), asked(pod_template="{}")]
)
def test_what_only_pods_have_is_refused(wanted: Container) -> None:
    with pytest.raises(Refused):
        DockerSite(("/",), any_user=True).settle(wanted)


def test_where_no_docker_is_no_container_is_taken_and_it_is_said_what_to_do() -> None:
    site = DockerSite(no_docker=lambda: "this host has no Docker")
    with pytest.raises(Refused, match=r"this host has no Docker; install it there .* or run it without an image"):
        site.settle(asked())


def test_docker_is_here_where_its_program_or_an_address_of_it_is(tmp_path: Path) -> None:
    nothing = {"PATH": str(tmp_path)}
    if not Path("/var/run/docker.sock").exists():
        assert "has no Docker" in (no_docker(nothing) or "")
    assert no_docker({**nothing, "DOCKER_HOST": "tcp://other:2375"}) is None
    (tmp_path / "dockerd").touch(mode=0o755)
    assert no_docker(nothing) is None
