"""A site's rules for jobs' containers on hosts with Docker. Implements `corral.core.ports.containers.Containers`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from corral.core.model.errors import Forbidden, Refused
from corral.core.model.jobs.container import Container, VolumeKind, is_below
from corral.core.model.jobs.job import Request
from corral.core.model.placing.placement_rules import Toleration

_APART = (None, "default", "bridge", "none")
"""Docker's own networks. On them, a container has no address that other hosts, or MASTER_ADDR, can reach."""


@dataclass(frozen=True, slots=True)
class DockerSite:
    """The site's rules. Jobs can request nothing else of the host: no devices, no capabilities, no namespaces.

    Attributes:
        host_paths: directories of the hosts that jobs may mount, with all below them.
        networks: Docker's networks that jobs may name.
        any_user: jobs may run as any user within their containers, root included.
        max_processes: the most processes and threads of a container, so that none exhausts its host.
        no_docker: returns why the hosts of jobs have no Docker, a sentence without its full stop, or None.
    """

    host_paths: tuple[str, ...] = ()
    networks: tuple[str, ...] = ("bridge", "none")
    any_user: bool = False
    max_processes: int = 16384
    no_docker: Callable[[], str | None] = lambda: None

    @property
    def every_job(self) -> bool:
        """False: hosts also run jobs as processes."""
        return False

    @property
    def reach_daemons(self) -> bool:
        """False: the MPS daemon is the host's, and its clients would need the host's directory and processes."""
        return False

    @property
    def checkpoints(self) -> bool:
        """True: Docker passes signals on to a container's main process, and scratch and volumes are the host's."""
        return True

    def settle(self, asked: Container | None, *, members: int = 1) -> Container:
        """Return the requested container, after a check.

        Raises Refused for a missing image, for options of Kubernetes and for a gang without a network. Raises Forbidden
        for what the site does not allow.
        """
        container = asked or Container()
        if (absence := self.no_docker()) is not None:
            raise Refused(
                f"image: {absence}; install it there (docs.docker.com/engine/install), or run it without an image",
                field="image",
            )
        if container.image is None:
            raise Refused("image: name the image to run in, such as --image repo/train:1", field="image")
        for field in ("service_account", "pod_template"):
            if getattr(container, field) is not None:
                raise Refused(f"{field}: that is for pods, on a server with --engine kubernetes", field=field)
        for volume in container.volumes:
            if volume.kind is not VolumeKind.HOST_PATH:
                raise Refused(f"volume: {volume} is of a Kubernetes cluster; write HOSTPATH:PATH here", field="volume")
            self.check_path(volume.source)
        if container.network is not None and container.network not in self.networks:
            raise Forbidden(
                f"network: this site does not let jobs use the network {container.network}; "
                f"allowed are {', '.join(self.networks) or 'none'} (docker.networks)",
                field="network",
            )
        if container.user is not None and not self.any_user:
            raise Forbidden(
                "user: on this site a container runs as the user who submits it; remove --user (docker.any_user)",
                field="user",
            )
        if members > 1 and container.network in _APART:
            self._refuse_gang(container)
        return container

    def _refuse_gang(self, container: Container) -> NoReturn:
        apart = container.network or "bridge"
        joining = [network for network in self.networks if network not in _APART]
        networks = " or ".join(f"--network {network}" for network in joining)
        remedy = (
            f"add {networks}"
            if joining
            else "this site allows no other (docker.networks): ask for `host` there, or leave out --image"
        )
        raise Refused(
            f"network: the members of a gang do not reach each other on Docker's network {apart}; {remedy}. "
            f"Use an array (--array) for processes that need not talk to each other",
            field="network",
        )

    def check_path(self, path: str) -> None:
        """Raise Forbidden for a path of the host that jobs may not see."""
        if not is_below(path, self.host_paths):
            paths = f"allowed are {', '.join(self.host_paths)}" if self.host_paths else "it allows none"
            raise Forbidden(
                f"volume: this site does not show {path:.200} of its hosts to jobs; {paths}. "
                "The setting docker.host_paths lists those that it shows",
                field="volume",
            )

    def tolerations(self, container: Container, request: Request) -> tuple[Toleration, ...]:
        """Return (): hosts have no taints."""
        return ()
