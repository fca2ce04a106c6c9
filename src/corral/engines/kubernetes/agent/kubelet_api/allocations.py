"""The answers of a device plugin to a kubelet, as plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ListedDevice:
    """A device in a plugin's list. Its `device_id` has 63 characters at most; `numa_node` is None if unknown."""

    device_id: str
    healthy: bool
    numa_node: int | None = None


@dataclass(frozen=True, slots=True)
class Mount:
    """A path of the host that a container gets under a path of its own."""

    host_path: str
    container_path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class ContainerAccess:
    """The access of a container to its devices: variables, paths, and the device files that it may open."""

    variables: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KubeletChoice:
    """A kubelet's question: which `count` of the available devices to give, with all that are required."""

    available: tuple[str, ...]
    required: tuple[str, ...]
    count: int


class PluginCalls(Protocol):
    """The answers to the kubelet for one resource. Calls come from several threads.

    Attributes:
        sees_starts: whether `starting` is called before each start of a container.
    """

    sees_starts: bool

    def listed(self) -> tuple[ListedDevice, ...]:
        """All devices, also those that are not healthy; 60,000 at most."""
        ...

    def preferred(self, choice: KubeletChoice) -> tuple[str, ...]:
        """The devices that a container had best get. Raises CorralError."""
        ...

    def allocate(self, device_ids: Sequence[str]) -> ContainerAccess:
        """Give these devices to a container. Raises CorralError: the kubelet then fails the pod, with its words."""
        ...

    def starting(self, device_ids: Sequence[str]) -> None:
        """A container with these devices is about to start. Raises CorralError: it then does not, and tries again."""
        ...
