"""The JSON bodies of requests about hosts."""

from dataclasses import dataclass, field

from corral.core.model.devices.joined_host import HostEntry, JoinOrder


@dataclass(frozen=True, slots=True)
class NewHost:
    """A host to join, and how."""

    host: HostEntry
    order: JoinOrder = field(default_factory=JoinOrder)


@dataclass(frozen=True, slots=True)
class HostRemoval:
    """How to remove a host: with `force` also while jobs run there, which are then ended."""

    force: bool = False
