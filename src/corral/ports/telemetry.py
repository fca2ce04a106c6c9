"""What reads the devices of a host, and what control hears of all hosts."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from corral.model.device import DeviceSample, Node
from corral.model.fact import Observation
from corral.model.view import View
from corral.ports.node import ServiceLost


class Source(Protocol):
    """Discovers and samples the devices of this host. Calls may be slow or hang: they run on the sampler's thread."""

    @property
    def name(self) -> str:
        """What reads the devices, for a person."""
        ...

    def node(self) -> Node:
        """The host's inventory. Raises BackendFailed when the driver does not answer."""
        ...

    def sample(self, uuids: Sequence[str] | None = None) -> tuple[DeviceSample, ...]:
        """One sample of each device, or of those named; a device that cannot be read has its `fault` set."""
        ...

    def close(self) -> None:
        """Let the driver session go."""
        ...


class NodeListener(Protocol):
    """Who is told what happens on nodes, on a thread of the hub's: each call must return at once."""

    def on_launches(self, node: str, launch_ids: tuple[str, ...]) -> None:
        """The reports of these launches are new."""
        ...

    def on_services_lost(self, node: str, lost: tuple[ServiceLost, ...]) -> None:
        """Sharing services of devices have died, and with them the work that used them."""
        ...

    def on_return(self, node: str, visit: int) -> None:
        """The node is there, for the first time or again, or its agent was restarted.

        Nothing starts on it until it was reconciled, which `NodeTelemetry.readmit(node, visit)` says.
        """
        ...

    def on_gone(self, node: str) -> None:
        """The node has not answered for `node_gone_after`; called once until it is heard again."""
        ...

    def on_left(self, node: str) -> None:
        """The node is not part of the cluster any more."""
        ...


class Contact(StrEnum):
    """How the server and a node stand: only on a node that is ready does anything start."""

    READY = "ready"
    RETURNING = "returning"
    SILENT = "silent"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class NodeContact:
    """Whether a node answers. `last_seen_at` is when it last did, Unix seconds, None where it never has."""

    node: str
    contact: Contact
    last_seen_at: float | None


class Samples(Protocol):
    """The newest measurements of devices."""

    def latest(self) -> dict[str, DeviceSample]:
        """The last sample of each device by UUID, without those of nodes that do not answer."""
        ...


class NodeTelemetry(Samples, Protocol):
    """What control needs of the hub, which hears all nodes."""

    def judged(self, samples: Sequence[DeviceSample], before: View) -> tuple[Observation, ...]:
        """What samples that were asked for mean, for the ledger; `before` is the view as they were asked for.

        A device that no node has, and one whose node is not ready, comes back unreadable.
        """
        ...

    def readmit(self, node: str, visit: int) -> None:
        """The node was reconciled after this visit began: things may start there. Nothing, where it left meanwhile."""
        ...

    def contacts(self) -> tuple[NodeContact, ...]:
        """Every node that there should be, by name."""
        ...
