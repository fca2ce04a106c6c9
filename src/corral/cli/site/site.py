"""The parts of a site that a Slurm script may name: queues, GPU models and labels of nodes."""

from functools import cached_property
from typing import Protocol

from corral.client import Client


class Site(Protocol):
    """The parts of a site that scripts may name."""

    @property
    def queues(self) -> frozenset[str]:
        """The names of the site's queues."""
        ...

    @property
    def models(self) -> tuple[str, ...]:
        """The models of the site's GPUs."""
        ...

    @property
    def labels(self) -> frozenset[tuple[str, str]]:
        """The labels of the site's nodes, with their values."""
        ...


class SiteOfServer:
    """The site as the server describes it. The server is asked only for the parts that a script needs."""

    @cached_property
    def queues(self) -> frozenset[str]:
        with Client() as client:
            return frozenset(row.name for row in client.queues() if row.kind == "queue" and not row.removed)

    @cached_property
    def models(self) -> tuple[str, ...]:
        with Client() as client:
            return tuple(sorted({row.name for row in client.devices.list() if row.name}))

    @cached_property
    def labels(self) -> frozenset[tuple[str, str]]:
        with Client() as client:
            return frozenset(label for node in client.nodes.list() for label in node.labels.items())


SERVER = SiteOfServer()
"""The site to which this command submits."""
