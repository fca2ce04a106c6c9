"""Protocols for the reader of a host's devices, and for telemetry of all hosts as control sees it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from corral.core.model.devices.device import Device, DeviceSample, Node
from corral.core.model.fact import Observation
from corral.core.model.view import View
from corral.core.ports.node import ServiceLost


def _nobody(_: str | None) -> None:
    """Note nothing."""


@dataclass(frozen=True, slots=True)
class Care:
    """How a source is to deal with devices whose driver may hang.

    Attributes:
        avoided: devices about which it makes no call. They stay in the inventory.
        known: devices that were found earlier, also by another source of this host.
        note: called with the UUID of a device before calls for the inventory are made about it, and with None after.
    """

    avoided: tuple[Device, ...] = ()
    known: tuple[Device, ...] = ()
    note: Callable[[str | None], None] = _nobody


CARELESS = Care()
"""No device is avoided, none is known, and nobody wants to hear what is asked."""


class Source(Protocol):
    """Discovers and samples the devices of this host. Calls may be slow or hang: they run in a worker."""

    @property
    def one_by_one(self) -> bool:
        """Whether reading devices one by one costs little more than reading all at once."""
        ...

    @property
    def name(self) -> str:
        """The name of the reader, for display."""
        ...

    def take_care(self, care: Care) -> None:
        """Deal with devices so from now on. Makes no call to a driver."""
        ...

    def node(self) -> Node:
        """The host's inventory. Raises BackendFailed if the driver does not answer."""
        ...

    def sample(self, uuids: Sequence[str] | None = None) -> tuple[DeviceSample, ...]:
        """Return one sample of each device, or of the named ones. The sample of a device that cannot be read has its
        `fault` set.
        """
        ...

    def close(self) -> None:
        """Close the session with the driver."""
        ...


class NodeListener(Protocol):
    """Receives events of nodes on a thread of the hub. Each call must return at once."""

    def on_launches(self, node: str, launch_ids: tuple[str, ...]) -> None:
        """Called when these launches have new reports."""
        ...

    def on_services_lost(self, node: str, lost: tuple[ServiceLost, ...]) -> None:
        """Called when sharing services of devices have died, and with them the work that used them."""
        ...

    def on_return(self, node: str, visit: int) -> None:
        """Called when the node has joined or returned, or its agent was restarted.

        Nothing starts on the node until it was reconciled and `NodeTelemetry.readmit(node, visit)` was called.
        """
        ...

    def on_gone(self, node: str) -> None:
        """Called once when the node has not answered for `node_gone_after`."""
        ...

    def on_left(self, node: str) -> None:
        """Called when the node has left the cluster."""
        ...


class Contact(StrEnum):
    """The state of a node for the server. Work starts only on a ready node."""

    READY = "ready"
    RETURNING = "returning"
    SILENT = "silent"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class NodeContact:
    """Whether a node answers.

    Attributes:
        last_seen_at: the time of its last answer, Unix seconds; None before the first.
        connected_at: when its present connection began, Unix seconds; None while it does not answer.
        clock_ahead_s: how far its clock is ahead of the server's; 0 if they agree within a second.
    """

    node: str
    contact: Contact
    last_seen_at: float | None
    connected_at: float | None = None
    clock_ahead_s: float = 0.0


class Samples(Protocol):
    """The newest measurements of devices."""

    def latest(self) -> dict[str, DeviceSample]:
        """Return the last sample of each device by UUID. Devices of nodes that do not answer are left out."""
        ...


class NodeTelemetry(Samples, Protocol):
    """The hub as control uses it. The hub follows all nodes."""

    def judged(self, samples: Sequence[DeviceSample], before: View) -> tuple[Observation, ...]:
        """Return the conditions of devices by these samples, for the ledger. `before` is the view at the time of the
        request for the samples.

        A device that no node has, and a device whose node is not ready, count as unreadable.
        """
        ...

    def readmit(self, node: str, visit: int) -> None:
        """Let work start on a node that was reconciled after this return (`visit`) began. Does nothing if the node has
        left since.
        """
        ...

    def contacts(self) -> tuple[NodeContact, ...]:
        """Return the contact of every node that should exist, by name."""
        ...
