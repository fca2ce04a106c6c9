"""Checks pods at intervals: time limits, pods that cannot begin, and ends that were not completed."""

import logging
import time
from collections.abc import Callable
from functools import partial

from corral.core.model.errors import CorralError, NodeUnreachable
from corral.engines.kubernetes.pods.pod_report import in_trouble, trouble
from corral.engines.kubernetes.pods.runtime import PodRuntime
from corral.engines.kubernetes.pods.state import LaunchedPod

log = logging.getLogger(__name__)

INTERVAL_S = 1.0


class PodPatrol:
    """Checks the pods of a runtime every `INTERVAL_S`."""

    def __init__(self, runtime: PodRuntime, *, kill_grace_s: float) -> None:
        self._runtime = runtime
        self._kill_grace_s = kill_grace_s
        self._troubled: dict[str, tuple[str, float]] = {}
        """The trouble of each pod that has not begun, and the time since when this server has seen it (monotonic), by
        UID.
        """
        self._said: str | None = None

    def look(self) -> None:
        """Check all pods once."""
        pods = [pod for pod in self._runtime.pods.all() if not pod.over]
        trouble = None
        rounds: list[Callable[[], None]] = [
            *(partial(self._look_at, pod) for pod in pods),
            self._runtime.remove_forgotten,
            partial(self._runtime.warnings.look, [pod for pod in pods if not pod.has_run]),
        ]
        for act in rounds:
            try:
                act()
            except NodeUnreachable as error:
                trouble = str(error)
                break
            except CorralError as error:
                trouble = str(error)
        for uid in self._troubled.keys() - {pod.uid for pod in pods}:
            del self._troubled[uid]
        if trouble is not None and trouble != self._said:
            log.warning("pods are looked at again later: %s", trouble)
        self._said = trouble

    def _look_at(self, pod: LaunchedPod) -> None:
        self._runtime.finish_end(pod)
        self._runtime.keep_time_limit(pod)
        if pod.deleted_at is not None:
            # Another client may have deleted the pod.
            self._runtime.logs.follow(pod, pod.grace_s or 0)
        what, now = in_trouble(pod), time.monotonic()
        if what is None:
            self._troubled.pop(pod.uid, None)
            return
        if self._troubled.get(pod.uid, ("", 0.0))[0] != what:
            self._troubled[pod.uid] = what, now
        found = trouble(pod, now - self._troubled[pod.uid][1])
        if found is not None:
            self._runtime.end(pod, *found, grace_s=self._kill_grace_s)
