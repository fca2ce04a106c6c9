"""The report of the agent on a node of a cluster to its server."""

from dataclasses import dataclass

from corral.core.model.devices.device import DeviceSample, Node

PROTOCOL = 1
"""The version of the report's form. A server refuses the reports of another version, with both numbers."""

REPORT_EVERY_S = 5.0
"""The interval of an agent's reports while its server takes them."""


@dataclass(frozen=True, slots=True)
class GivenDevices:
    """The devices of one resource that the kubelet has given to a container, by its pod-resources socket.

    `device_ids` are as the kubelet has them: UUIDs of devices or slices, or "UUID::NUMBER" of parts of a device.
    """

    namespace: str
    pod: str
    container: str
    resource: str
    device_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GivenShare:
    """A part of a device that the agent's device plugin has given to a pod.

    `pod_uid` is None if the kubelet's record was lost, and the pod is known by its name alone.
    """

    namespace: str
    pod: str
    pod_uid: str | None
    device_uuid: str
    share_milli: int
    memory_mib: int | None


OWN_PLUGIN = "corral"
"""The name of Corral's own device plugin in reports."""


@dataclass(frozen=True, slots=True)
class ServedResource:
    """A resource that a device plugin serves on the node.

    `by` is the plugin's name, OWN_PLUGIN for the agent's own; None if the resource is served and nobody knows by whom.
    """

    resource: str
    by: str | None


@dataclass(frozen=True, slots=True)
class AgentReport:
    """The state of one node.

    Attributes:
        protocol: the version of this form.
        version: the agent's version of Corral.
        sent_at: the node's clock, Unix seconds.
        node: the inventory, with every device by its UUID.
        samples: the newest sample of each device; its processes name their pods where that is known.
        given: the devices that the kubelet has given away; None if the kubelet does not tell.
        shares: the parts of devices that the agent's plugin has given away; () without a plugin.
        served: the resources of devices on this node.
    """

    protocol: int
    version: str
    sent_at: float
    node: Node
    samples: tuple[DeviceSample, ...]
    given: tuple[GivenDevices, ...] | None = None
    shares: tuple[GivenShare, ...] = ()
    served: tuple[ServedResource, ...] = ()
