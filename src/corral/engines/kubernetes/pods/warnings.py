"""Warnings of the cluster about pods that do not begin. They are in events only, as about a missing secret."""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from corral.engines.kubernetes.cluster.client import Cluster, Selection
from corral.engines.kubernetes.cluster.errors import MissingRight
from corral.engines.kubernetes.cluster.resource import EVENTS
from corral.engines.kubernetes.pods.state import LaunchedPod, printable_text

LOOK_S = 10.0
"""A pod's events are read once it has not begun for this long, and then at this interval."""
MOST_A_ROUND = 5
TIMEOUT_S = 5.0


class PodWarnings:
    """The newest warning of each pod that was checked. Safe from any thread; one thread checks."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._lock = threading.Lock()
        self._told: dict[str, str | None] = {}
        self._due_s: dict[str, float] = {}
        self._allowed = True

    def of(self, pod: LaunchedPod) -> str | None:
        """Return the last warning about a pod, or None if there is none or it is unknown."""
        with self._lock:
            return self._told.get(pod.uid)

    def look(self, waiting: Sequence[LaunchedPod]) -> None:
        """Read the warnings of some of these pods, which have not begun. Forget all other pods. Raises CorralError."""
        now_s = time.monotonic()
        self._due_s = {pod.uid: self._due_s.get(pod.uid, now_s + LOOK_S) for pod in waiting}
        with self._lock:
            self._told = {uid: text for uid, text in self._told.items() if uid in self._due_s}
        due = sorted((due_s, uid) for uid, due_s in self._due_s.items() if due_s <= now_s)
        for _, uid in due[:MOST_A_ROUND] if self._allowed else ():
            self._due_s[uid] = now_s + LOOK_S
            try:
                found = self._newest(uid)
            except MissingRight:
                self._allowed = False
                return
            with self._lock:
                self._told[uid] = found

    def _newest(self, uid: str) -> str | None:
        selection = Selection(self._namespace, fields=f"involvedObject.uid={uid},type=Warning")
        events = self._cluster.list(EVENTS, selection, timeout_s=TIMEOUT_S)
        newest = max(events, key=_told_at, default=None)
        if newest is None:
            return None
        return f"{printable_text(newest.get('reason'))}: {printable_text(newest.get('message'))}"


def _told_at(event: Mapping[str, Any]) -> str:
    """Return the time of the event's last repetition, as text that sorts by time."""
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")
