"""The containers that a site runs, by its engine."""

from typing import Protocol

from corral.core.model.jobs.container import Container
from corral.core.model.jobs.job import Request
from corral.core.model.placing.placement_rules import Toleration


class Containers(Protocol):
    """The rules of an engine that runs jobs in containers.

    Attributes:
        every_job: each job runs in one; else those do that name an image.
        parts: whether a job may have a part of a device there.
        reach_daemons: a container that is given a part of a device that is shared by MPS reaches its daemon.
    """

    @property
    def every_job(self) -> bool: ...

    @property
    def parts(self) -> bool: ...

    @property
    def reach_daemons(self) -> bool: ...

    def settle(self, asked: Container | None, *, members: int = 1) -> Container:
        """Return the container of each of a job's members, with the site's default image if none is requested.

        Raises Refused if there is none or it would be of no use, and Forbidden if the site does not allow it.
        """
        ...

    def tolerations(self, container: Container, request: Request) -> tuple[Toleration, ...]:
        """Return the taints of nodes that such a job tolerates."""
        ...
