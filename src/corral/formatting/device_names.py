"""Names of devices in tables and messages: by index, node and model."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Protocol

    from corral.client import DeviceRow

    class OnNode(Protocol):
        """A row that says which node its device is on."""

        @property
        def node(self) -> str | None:
            """The node's name, None from a server that does not say it."""
            ...

    class Modelled(Protocol):
        """A row that says which model its device is."""

        @property
        def name(self) -> str:
            """The model."""
            ...

        @property
        def mig_profile(self) -> str | None:
            """The profile of a slice, None for a whole GPU."""
            ...


def several_nodes(devices: Iterable[OnNode]) -> bool:
    """Whether they are of more than one node, so that an index does not tell which device is meant."""
    return len({device.node for device in devices}) > 1


def device_called(device: DeviceRow, several: bool) -> str:
    """The index of a device, after its node where there are several: "3", "gpu-07:3"."""
    index = "?" if device.index is None else str(device.index)
    return f"{device.node}:{index}" if several else index


def short_model(device: Modelled) -> str:
    """The profile of a slice, else the model without its maker."""
    return device.mig_profile or device.name.removeprefix("NVIDIA ")
