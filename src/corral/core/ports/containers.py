"""The site's rules for jobs in containers."""

from typing import Protocol

from corral.core.model.jobs.container import Container
from corral.core.model.jobs.job import Request
from corral.core.model.placing.placement_rules import Toleration


class Containers(Protocol):
    """The rules of an engine that runs jobs in containers.

    Attributes:
        every_job: whether every job runs in a container. If not, only jobs that name an image do.
        reach_daemons: whether a container can reach the MPS daemon of a device of which it has a part.
        checkpoints: whether a running container gets signals besides SIGTERM, and its host sees its checkpoints.
    """

    @property
    def every_job(self) -> bool: ...

    @property
    def reach_daemons(self) -> bool: ...

    @property
    def checkpoints(self) -> bool: ...

    def settle(self, asked: Container | None, *, members: int = 1) -> Container:
        """Return the container of each of a job's members. If `asked` names no image, it gets the site's default image.

        Raises Refused for a missing image and for options that do not apply here, and Forbidden if the site does not
        allow it.
        """
        ...

    def tolerations(self, container: Container, request: Request) -> tuple[Toleration, ...]:
        """Return the taints of nodes that a job with this container and this request tolerates."""
        ...
