"""What a script for Slurm may name of a site: its queues, the models of its GPUs and the labels of its nodes."""

from functools import cached_property
from typing import Protocol

from corral.client import Client


class Site(Protocol):
    """A site as far as scripts name it."""

    @property
    def queues(self) -> frozenset[str]:
        """The names of its queues."""
        ...

    @property
    def models(self) -> tuple[str, ...]:
        """The models of its GPUs."""
        ...

    @property
    def labels(self) -> frozenset[tuple[str, str]]:
        """The labels that its nodes have, with their values."""
        ...


class SiteOfServer:
    """What the server says, which is asked only for what a script needs."""

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
"""The site that this command submits to."""
