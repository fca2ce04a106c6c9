"""Pods of another scheduler that Corral is about to bind: no cache has them before they are bound."""

import threading
import time

from corral.core.model.jobs.pod_ref import PodRef
from corral.engines.kubernetes.binding.pods_of_others import PodOfOthers

ANNOUNCED_S = 60.0
"""A pod counts as present for so long after it was read, unless the watch reports it before."""


class AnnouncedPods:
    """The pods, as they were read from the API server. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pods: dict[PodRef, tuple[PodOfOthers, float]] = {}

    def announce(self, pod: PodOfOthers) -> None:
        """Add a pod that exists now."""
        now_s = time.monotonic()
        with self._lock:
            self._pods = {ref: one for ref, one in self._pods.items() if one[1] > now_s}
            self._pods[pod.ref] = pod, now_s + ANNOUNCED_S

    def get(self, ref: PodRef) -> PodOfOthers | None:
        """Return a pod that was announced; None if that is too long ago."""
        with self._lock:
            pod, until_s = self._pods.get(ref, (None, 0.0))
        return pod if until_s > time.monotonic() else None

    def drop(self, ref: PodRef) -> None:
        """Remove a pod: the watch has reported it, or it is not bound after all."""
        with self._lock:
            self._pods.pop(ref, None)
