"""The devices of the pods of a node, kept in agreement with the API server, the kubelet, and a file on the node."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from corral.core.model.errors import BackendFailed, CorralError, Refused
from corral.engines.kubernetes.agent.agent_report import GivenDevices, GivenShare
from corral.engines.kubernetes.agent.kubelet_api.allocations import ContainerAccess, KubeletChoice
from corral.engines.kubernetes.agent.kubelet_api.pod_resources import given_devices
from corral.engines.kubernetes.agent.plugin.bound_pods import BoundPod, keep_bound_pod
from corral.engines.kubernetes.agent.plugin.container_access import AccessMaker
from corral.engines.kubernetes.agent.plugin.given_file import read_given, write_given
from corral.engines.kubernetes.agent.plugin.offers import Offer, SeenDevices, uuid_of
from corral.engines.kubernetes.agent.plugin.plugin_core import (
    Book,
    GivenToContainer,
    NotMatched,
    exchanged,
    matched,
    preferred,
    reconciled,
    shares,
)
from corral.engines.kubernetes.cluster.client import Cluster, Selection
from corral.engines.kubernetes.cluster.object_watch import ObjectWatch
from corral.engines.kubernetes.cluster.resource import PODS
from corral.host.sharing.host_drivers import HostDrivers

_log = logging.getLogger(__name__)

_PATIENCE_S = 2.0
"""The time that an allocation waits for the API server to show its pod. The kubelet admits no other pod meanwhile."""
_PAUSE_S = 0.1
_AHEAD_S = 60.0
"""The time that a pod which a listing has shown may be missing where pods are followed."""
_FILE = "given.json"


class AllocationBook:
    """Decides what containers get, and keeps it. Safe from any thread.

    Args:
        cluster: its API server, of which the pods of the node are followed.
        node: the node's name in the cluster.
        seen: returns the devices as they were last read; None before.
        drivers: the means of sharing on this host.
        home: the directory of the file.
        pod_resources: the kubelet's socket where it says what it gave.
    """

    def __init__(
        self,
        cluster: Cluster,
        node: str,
        seen: Callable[[], SeenDevices | None],
        drivers: HostDrivers,
        *,
        home: Path,
        pod_resources: Path,
    ) -> None:
        self._cluster = cluster
        self._seen = seen
        self._access = AccessMaker(drivers)
        self._file = home / _FILE
        self._pod_resources = pod_resources
        self._selection = Selection(fields=f"spec.nodeName={node}")
        self._watch = ObjectWatch(cluster, PODS, self._selection)
        self._pods = self._watch.cache(keep_bound_pod)
        # Held while something is decided. What was given is a value that is replaced, and read without the lock.
        self._lock = threading.RLock()
        self._given: tuple[GivenToContainer, ...] = ()
        self._lapsed: frozenset[tuple[str, str, str]] = frozenset()
        self._offers: Mapping[str, Offer] = {}
        self._ahead: dict[str, tuple[BoundPod, float]] = {}
        self._unlisted: CorralError | None = None

    def start(self) -> None:
        """Read the file, and begin to follow the pods of the node."""
        self._given = read_given(self._file)
        self._watch.start()

    def stop(self) -> None:
        """Follow the pods no more."""
        self._watch.stop()

    @property
    def ready(self) -> bool:
        """Whether the pods of the node are known."""
        return self._pods.synced

    def shares(self) -> tuple[GivenShare, ...]:
        """Return what pods were given, for the report on the node."""
        return shares(self._given)

    def preferred(self, offer: Offer, choice: KubeletChoice) -> tuple[str, ...]:
        """Answer the kubelet's question. Raises BackendFailed."""
        with self._lock:
            seen = self._seen()
            if seen is None:
                raise BackendFailed("the devices have not been read yet")
            chosen = preferred(offer, self._book(), seen.node, choice)
            if chosen is None:
                # The kubelet has heard of a pod before we have, or has forgotten what it gave.
                chosen = preferred(offer, self._newest_book(), seen.node, choice)
            return choice.available[: choice.count] if chosen is None else chosen

    def allocate(self, offer: Offer, ids: Sequence[str]) -> ContainerAccess:
        """Give these devices to the container for which they are. Raises Refused or BackendFailed."""
        try:
            with self._lock:
                given = self._match(offer, ids)
                access = self._access.access(offer, given)
                self._keep((*(one for one in self._given if one.place != given.place), given), self._lapsed)
        except Refused as refused:
            _log.warning("%s", refused)
            raise
        return access

    def starting(self, offer: Offer, ids: Sequence[str]) -> None:
        """Check the container that has these devices, which the kubelet knows by now. Raises Refused."""
        try:
            told = given_devices(self._pod_resources)
        except BackendFailed:
            return
        with self._lock:
            why = exchanged(offer, self._book(), told, ids)
        if why is not None:
            _log.warning("%s", why)
            raise Refused(why)

    def _match(self, offer: Offer, ids: Sequence[str]) -> GivenToContainer:
        """The container for which the kubelet allocates. Waits a little for the API server to show it."""
        try:
            return matched(offer, self._book(), ids)
        except NotMatched:
            pass
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return matched(offer, self._newest_book(), ids)
            except NotMatched as why:
                if time.monotonic() >= deadline:
                    raise Refused(f"{why}{self._unseen()}") from None
            time.sleep(_PAUSE_S)

    def _unseen(self) -> str:
        return "" if self._unlisted is None else f" (the pods of this node cannot be listed now: {self._unlisted})"

    def _book(self) -> Book:
        return Book(self._known_pods(), self._given, self._lapsed)

    def _known_pods(self) -> tuple[BoundPod, ...]:
        """The pods that are followed, and those that a listing has shown before."""
        followed = self._pods.values()
        known = {pod.uid for pod in followed}
        now = time.monotonic()
        self._ahead = {
            uid: (pod, until) for uid, (pod, until) in self._ahead.items() if uid not in known and now < until
        }
        return (*followed, *(pod for pod, _ in self._ahead.values()))

    def _newest_book(self) -> Book:
        """The book with the pods that the API server has now, and with what the kubelet says it has given."""
        try:
            found = self._cluster.read_all(PODS, keep_bound_pod, self._selection, timeout_s=_PATIENCE_S)
        except CorralError as error:
            self._unlisted = error
            return self._agreed(self._known_pods(), tuple(self._offers))
        self._unlisted = None
        followed, until = {pod.uid for pod in self._pods.values()}, time.monotonic() + _AHEAD_S
        self._ahead = {pod.uid: (pod, until) for pod in found if pod.uid not in followed}
        return self._agreed(tuple(found), tuple(self._offers))

    def agree(self, offered: Mapping[str, Offer]) -> None:
        """Compare what was given with the kubelet's record and the pods, and keep the result. Raises BackendFailed."""
        self._offers = offered
        self._agreed(self._known_pods(), tuple(offered))

    def _agreed(self, pods: tuple[BoundPod, ...], resources: Collection[str]) -> Book:
        told: tuple[GivenDevices, ...] | None
        try:
            told = given_devices(self._pod_resources)
        except BackendFailed:
            told = None
        with self._lock:
            book = reconciled(Book(pods, self._given, self._lapsed), told, resources)
            before = {uuid_of(one) for given in self._given for one in given.device_ids}
            self._keep(book.given, book.lapsed)
            self._release(before)
            return book

    def _keep(self, given: tuple[GivenToContainer, ...], lapsed: frozenset[tuple[str, str, str]]) -> None:
        if set(given) != set(self._given):
            write_given(self._file, given)
        self._given, self._lapsed = given, lapsed

    def prepare(self, offer: Offer) -> None:
        """Containers that had parts of devices before this process may start again without an allocation."""
        self._offers = {**self._offers, offer.resource: offer}
        if offer.units == 1:
            return
        for uuid in {uuid_of(one) for given in self._given for one in given.device_ids}:
            if uuid in offer.by_uuid:
                try:
                    self._access.prepare(offer.by_uuid[uuid].device)
                except BackendFailed as error:
                    _log.warning("%s", error)

    def _release(self, before: set[str]) -> None:
        """Tell the drivers of sharing which devices nobody has any more."""
        gone = before - {uuid_of(one) for given in self._given for one in given.device_ids}
        for offer in self._offers.values():
            for uuid in sorted(gone & offer.by_uuid.keys()) if offer.units > 1 else ():
                try:
                    self._access.release(offer.by_uuid[uuid].device)
                except BackendFailed as error:
                    _log.warning("%s", error)
