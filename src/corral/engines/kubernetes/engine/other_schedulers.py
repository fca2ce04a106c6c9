"""Checks, before a start, for pods that other schedulers have just bound: watches report them later (decision 67)."""

import logging
import threading
from collections.abc import Sequence
from functools import partial

from corral.clock import Clock
from corral.engines.kubernetes.cluster.client import Cluster, Selection
from corral.engines.kubernetes.cluster.errors import asked_again
from corral.engines.kubernetes.cluster.object_watch import ObjectWatch
from corral.engines.kubernetes.cluster.resource import PODS
from corral.engines.kubernetes.cluster.watch_state import Change
from corral.engines.kubernetes.engine.node_book import NodeBook
from corral.engines.kubernetes.inventory.occupants import keep_occupant
from corral.engines.kubernetes.inventory.pods_elsewhere import PodElsewhere, keep_elsewhere, warning_of
from corral.engines.kubernetes.shares.pod_shares import OWN_NAMES, PodShares

log = logging.getLogger(__name__)

RECENT_S = 1.0
"""A node's pods are listed if a pod of others came to it, or one with GPUs was made, within this time."""

ANSWER_S = 2.0


class OtherSchedulers:
    """The pods with GPUs that other schedulers bind, and their latest bindings. Safe from any thread.

    `scheduler` and `tag` are those of this server. `names` reads parts of GPUs.
    """

    def __init__(
        self,
        cluster: Cluster,
        pods: ObjectWatch,
        book: NodeBook,
        clock: Clock,
        *,
        scheduler: str,
        tag: str,
        names: PodShares = OWN_NAMES,
    ) -> None:
        self._cluster = cluster
        self._book = book
        self._clock = clock
        self._scheduler = scheduler
        self._names = names
        self._lock = threading.Lock()
        self._made_s = -RECENT_S
        self._warned = False
        self._pods = pods.cache(partial(keep_elsewhere, own_scheduler=scheduler, own_tag=tag))
        self._pods.subscribe(self._hear)

    def warning(self) -> str | None:
        """The warning about these pods with its remedy, or None if there are none."""
        return warning_of(self._pods.values(), self._scheduler)

    def look(self, node: str) -> None:
        """Bring the latest bindings of other schedulers on a node into the book. Raises NodeUnreachable without an
        answer.
        """
        since_s = self._clock.monotonic() - RECENT_S
        with self._lock:
            made = self._made_s > since_s
        if not (made or self._book.others_came_since(node, since_s)):
            return
        self.warn()
        with asked_again():
            pods = self._cluster.list(PODS, Selection(fields=f"spec.nodeName={node}"), timeout_s=ANSWER_S)
        self._book.note_ahead(node, [one for pod in pods if (one := keep_occupant(pod, self._names)) is not None])

    def warn(self) -> None:
        """Log the warning once, as soon as there is a pod to warn of."""
        if not self._warned and (warning := self.warning()) is not None:
            self._warned = True
            log.warning("%s", warning)

    def _hear(self, changes: Sequence[Change[PodElsewhere]]) -> None:
        if any(old is None and new is not None and new.waits for old, new in changes):
            with self._lock:
                self._made_s = self._clock.monotonic()
