"""The devices of jobs as the ledger has them, for an engine whose cluster gives devices to pods by itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from corral.core.model.devices.device import Device
from corral.core.model.placing.allocation import Grant


@dataclass(frozen=True, slots=True)
class LaunchDevices:
    """The devices that the ledger has given to one launch, in the order of its request."""

    launch_id: str
    grants: tuple[Grant, ...]


Targets = Mapping[str, Sequence[Device]]
"""The devices that launches have instead, by launch id: as many as before, in the order of the grants."""

Choose = Callable[[Sequence[LaunchDevices]], Targets]
"""Returns the launches on a node whose devices change, from all of them. Pure, for the ledger's thread."""


class JobDevices(Protocol):
    """Tells and exchanges the devices of jobs. Thread-safe."""

    def on(self, node: str) -> Sequence[LaunchDevices]:
        """Return the launches on a node, by their ids."""
        ...

    def exchange(self, node: str, choose: Choose, *, closed: bool = False) -> Targets | None:
        """Exchange the devices of launches on a node in one commit. Return what was exchanged, once on disk.

        None if nothing was: a device would then be given twice, or the node is to be `closed`, and something could
        start there. Raises LedgerFailed.
        """
        ...

    def fail(self, launch_id: str, reason: str) -> None:
        """End the job of a launch as failed; its retries apply. Does nothing if it is not live. Raises LedgerFailed."""
        ...
