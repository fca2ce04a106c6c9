"""The device plugins of a node: one server for each resource, and the thread that keeps them at the kubelet."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from corral.core.model.errors import BackendFailed, CorralError
from corral.engines.kubernetes.agent.agent_report import OWN_PLUGIN, GivenShare, ServedResource
from corral.engines.kubernetes.agent.kubelet_api.allocations import ContainerAccess, KubeletChoice, ListedDevice
from corral.engines.kubernetes.agent.kubelet_api.device_plugin import (
    KUBELET_SOCKET,
    PLUGINS,
    PluginServer,
    register,
)
from corral.engines.kubernetes.agent.kubelet_api.pod_resources import SOCKET
from corral.engines.kubernetes.agent.plugin.allocation_book import AllocationBook
from corral.engines.kubernetes.agent.plugin.offers import Offer, SeenDevices, offers
from corral.engines.kubernetes.agent.plugin.other_plugins import other_plugins
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.objects import mapping
from corral.engines.kubernetes.cluster.resource import NODES
from corral.host.sharing.host_drivers import HostDrivers

_log = logging.getLogger(__name__)

_LOOK_S = 1.0
_AGREE_S = 5.0
"""The time between two comparisons of what was given with the kubelet's record."""
_MEMORY_S = 60.0
"""The time between two looks at the memory in the node's status. Nobody but this plugin changes it."""
_RETRY_S = 10.0
"""The time between two looks whether other plugins still serve what this one would."""
_UNFOLLOWED_S = 5.0
"""A kubelet that has taken a plugin follows its list within this time, unless another plugin took its place."""
_PATCH_S = 5.0
_SOCKET_PREFIX = "corral-"


@dataclass(frozen=True, slots=True)
class KubeletPlaces:
    """The places at which the kubelet of the node is met."""

    plugins: Path = PLUGINS
    pod_resources: Path = SOCKET


class DevicePlugins:
    """Offers the node's devices to its kubelet, from `start` to `stop`. Safe from any thread.

    Args:
        cluster: its API server, of which the pods of the node are followed.
        node: the node's name in the cluster.
        seen: returns the devices as they were last read; None before.
        drivers: the means of sharing on this host.
        home: a directory that is under the same path on the host, for what was given and for daemons of sharing.
        places: where the kubelet is met.
    """

    def __init__(
        self,
        cluster: Cluster,
        node: str,
        seen: Callable[[], SeenDevices | None],
        drivers: HostDrivers,
        *,
        home: Path,
        places: KubeletPlaces = KubeletPlaces(),
    ) -> None:
        self._cluster = cluster
        self._node = node
        self._seen = seen
        self._places = places
        self._book = AllocationBook(cluster, node, seen, drivers, home=home, pod_resources=places.pod_resources)
        self._served: Mapping[str, _Served] = {}
        self._others: Mapping[str, str] = {}
        self._kubelet: int | None = None
        self._agree_at = self._memory_at = self._retry_at = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="device-plugins", daemon=True)

    def start(self) -> None:
        """Begin to follow the kubelet. What pods were given before is taken from the file on the node."""
        self._book.start()
        self._thread.start()

    def stop(self) -> None:
        """Leave the kubelet: it then gives none of these devices to new pods. Those that have some keep them."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._book.stop()
        for one in self._served.values():
            one.server.close()

    def given(self) -> tuple[GivenShare, ...]:
        """Return what pods were given, for the report on the node."""
        return self._book.shares()

    def served(self) -> tuple[ServedResource, ...]:
        """The resources of the node's devices, each with the plugin that serves it."""
        own = (ServedResource(resource, OWN_PLUGIN) for resource in self._served)
        return (*own, *(ServedResource(resource, socket) for resource, socket in self._others.items()))

    def _follow(self) -> None:
        said = None
        while not self._stopping.is_set():
            try:
                self._look()
                said = None
            except CorralError as error:
                if str(error) != said:
                    _log.warning("device plugins: %s", error)
                said = str(error)
            self._stopping.wait(_LOOK_S)

    def _look(self) -> None:
        seen = self._seen()
        if seen is None or not self._book.ready:
            return
        offered = {one.resource: one for one in offers(seen.node, seen.samples)}
        self._renew(offered)
        restarted = self._has_restarted()
        now = time.monotonic()
        lost = any(one.needs_registration(restarted) for one in self._served.values())
        if lost or restarted or (offered.keys() - self._served and now >= self._retry_at):
            # A kubelet that starts does not answer at once.
            self._retry_at = now + _LOOK_S
            self._register(offered, restarted)
            self._retry_at = now + _RETRY_S
        if now >= self._agree_at:
            self._agree_at = now + _AGREE_S
            self._book.agree({resource: served.offer for resource, served in self._served.items()})
        if now >= self._memory_at:
            self._memory_at = now + _MEMORY_S
            self._tell_memory(offered)

    def _renew(self, offered: Mapping[str, Offer]) -> None:
        """Send lists that have changed. A resource without a device left keeps its server, with an empty list."""
        for resource, served in self._served.items():
            offer = offered.get(resource) or replace(served.offer, devices=())
            if offer != served.offer:
                served.offer = offer
                served.server.tell()

    def _has_restarted(self) -> bool:
        try:
            inode = (self._places.plugins / KUBELET_SOCKET).stat().st_ino
        except OSError:
            self._kubelet = None
            return False
        changed = inode != self._kubelet
        self._kubelet = inode
        return changed

    def _register(self, offered: Mapping[str, Offer], restarted: bool) -> None:
        if self._kubelet is None:
            return
        own = {_socket(resource) for resource in (*offered, *self._served)}
        others = other_plugins(self._places.plugins, (*offered, *self._served), own)
        for resource in others.keys() - self._others.keys():
            _log.warning("%s is served by another plugin, at its socket %s: left to it", resource, others[resource])
        self._others = others
        for resource in others:
            self._leave(resource)
        for resource, offer in offered.items():
            if resource not in others and (
                resource not in self._served or self._served[resource].needs_registration(restarted)
            ):
                self._serve(offer)

    def _serve(self, offer: Offer) -> None:
        self._leave(offer.resource)
        socket = _socket(offer.resource)
        served = _Served(offer, self._book, self._allocate)
        served.server = PluginServer(self._places.plugins / socket, served)
        self._served = {**self._served, offer.resource: served}
        self._book.prepare(offer)
        try:
            served.server.start()
            register(self._places.plugins, socket, offer.resource, sees_starts=served.sees_starts)
        except BackendFailed:
            self._leave(offer.resource)
            raise
        self._memory_at = 0.0
        _log.info("%s: %d devices are offered to the kubelet", offer.resource, len(offer.devices))

    def _allocate(self, offer: Offer, ids: Sequence[str]) -> ContainerAccess:
        access = self._book.allocate(offer, ids)
        # The kubelet notes it once it has this answer.
        self._agree_at = time.monotonic() + _LOOK_S
        return access

    def _leave(self, resource: str) -> None:
        served = self._served.get(resource)
        self._served = {name: one for name, one in self._served.items() if name != resource}
        if served is not None:
            served.server.close()

    def _tell_memory(self, offered: Mapping[str, Offer]) -> None:
        """Write the memory of shared devices into the node's status: a list of devices could not be so long."""
        amounts = {
            offer.memory.name: offer.memory_amount
            for resource, offer in offered.items()
            if offer.memory is not None and resource in self._served
        }
        if not amounts:
            return
        status = mapping(self._cluster.get(NODES, self._node, timeout_s=_PATCH_S).get("status"))
        for part in ("capacity", "allocatable"):
            has = mapping(status.get(part))
            if any(has.get(name) != str(amount) for name, amount in amounts.items()):
                body = {"status": {part: {name: str(amount) for name, amount in amounts.items()}}}
                self._cluster.patch(NODES, self._node, body, subresource="status", timeout_s=_PATCH_S)


class _Served:
    """A resource that this plugin serves. Answers the kubelet's calls for it."""

    server: PluginServer

    def __init__(
        self,
        offer: Offer,
        book: AllocationBook,
        allocate: Callable[[Offer, Sequence[str]], ContainerAccess],
    ) -> None:
        self.offer = offer
        self.sees_starts = offer.units > 1
        self._book = book
        self._allocate = allocate
        self._since_s = time.monotonic()

    def listed(self) -> tuple[ListedDevice, ...]:
        offer = self.offer
        return tuple(
            ListedDevice(one_id, one.illness is None, one.device.numa_node)
            for one in offer.devices
            for one_id in offer.ids(one.uuid)
        )

    def preferred(self, choice: KubeletChoice) -> tuple[str, ...]:
        return self._book.preferred(self.offer, choice)

    def allocate(self, device_ids: Sequence[str]) -> ContainerAccess:
        return self._allocate(self.offer, device_ids)

    def starting(self, device_ids: Sequence[str]) -> None:
        self._book.starting(self.offer, device_ids)

    def needs_registration(self, restarted: bool) -> bool:
        """Whether the kubelet has lost it: by a restart, with the socket, or because another plugin came."""
        lost = time.monotonic() - self._since_s > _UNFOLLOWED_S and not self.server.followed
        return restarted or lost or not self.server.in_place


def _socket(resource: str) -> str:
    """The name of a resource's socket."""
    return f"{_SOCKET_PREFIX}{resource.replace('/', '-')}.sock"
