"""Writes on a pod why it waits, as an event and as the condition `PodScheduled`, at a bounded rate."""

import logging
import time
from datetime import UTC, datetime

from corral.core.model.errors import CorralError
from corral.core.model.jobs.pod_ref import PodRef
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.errors import AlreadyExists, NoSuchObject
from corral.engines.kubernetes.cluster.resource import EVENTS, PODS

log = logging.getLogger(__name__)

FIRST_AFTER_S = 3.0
"""The time before the first notice on a pod. Most pods are bound earlier."""

LONGEST_PAUSE_S = 300.0
MOST_A_ROUND = 10
ROUND_S = 0.1
"""The limits of a round: the number of pods, and the time. Computing why a job waits costs as much as a plan, and the
API server and the planner have other work.
"""

UNSCHEDULABLE = "Unschedulable"
"""The reason of a pod that waits in its queue because no node fits. Cluster autoscalers look for this word."""
NOT_QUEUED = "NotQueued"
"""The reason of a pod without a job: it was refused, or other pods of its gang are missing."""

MOST_CHARACTERS = 1000
"""The most characters of an event's message. Kubernetes allows 1,024."""


class _Told:
    """The last notice on one pod, the number of notices, and the time when the next may be written."""

    def __init__(self, now_s: float) -> None:
        self.next_s = now_s + FIRST_AFTER_S
        self.pause_s = 10.0
        self.text: str | None = None
        self.count = 0
        self.node: str | None = None
        """The node to which the pod was bound. An earlier notice is then out of date."""


class Notices:
    """Waiting pods and the notices that the server with this tag has written on them. For one thread."""

    def __init__(self, cluster: Cluster, tag: str) -> None:
        self._cluster = cluster
        self._tag = tag
        self._told: dict[PodRef, _Told] = {}

    def begin(self, pod: PodRef) -> None:
        """Record that the pod waits from now on."""
        self._told.setdefault(pod, _Told(time.monotonic()))

    def end(self, pod: PodRef) -> None:
        """Record that the pod waits no more."""
        self._told.pop(pod, None)

    def soon(self, pod: PodRef) -> None:
        """Bring the next notice forward: the reason why the pod waits has changed."""
        if (told := self._told.get(pod)) is not None:
            told.next_s = min(told.next_s, time.monotonic() + FIRST_AFTER_S)

    def bound(self, pod: PodRef, node: str) -> None:
        """Schedule the last notice of a pod that was bound, if it has an earlier notice that says why it waits."""
        told = self._told.get(pod)
        if told is None or told.text is None:
            self.end(pod)
        else:
            told.node, told.next_s = node, time.monotonic()

    def due(self) -> list[PodRef]:
        """Return the pods whose notice is due now, those that are due longest first."""
        now_s = time.monotonic()
        late = sorted((told.next_s, pod) for pod, told in self._told.items() if told.next_s <= now_s)
        return [pod for _, pod in late[:MOST_A_ROUND]]

    def later(self, pod: PodRef) -> None:
        """Delay the next notice of a pod, whether this one succeeds or not."""
        if (told := self._told.get(pod)) is not None:
            told.next_s = time.monotonic() + told.pause_s

    def tell(self, pod: PodRef, text: str, reason: str) -> None:
        """Write on the pod why it waits, unless the pod says so already. `reason` is the machine-readable word."""
        told = self._told.get(pod)
        if told is None:
            return
        text = "".join(c if c.isprintable() else " " for c in text)[:MOST_CHARACTERS]
        if text == told.text:
            return
        told.pause_s = min(2 * told.pause_s, LONGEST_PAUSE_S)
        told.count += 1
        try:
            self._write(pod, text, reason, told.count)
        except CorralError as error:
            log.warning("the reason of waiting cannot be written to pod %s: %s", pod, error)
            return
        told.text = text

    def tell_bound(self, pod: PodRef) -> bool:
        """Write the last event of a pod that was bound. Return False if the pod was not bound."""
        told = self._told.get(pod)
        if told is None or told.node is None:
            return False
        try:
            self._write_event(pod, f"bound to {told.node}", told.count + 1, reason="Scheduled", kind="Normal")
        except NoSuchObject:
            log.info("pod %s was deleted before its binding was reported", pod)
        self.end(pod)
        return True

    def _write(self, pod: PodRef, text: str, reason: str, count: int) -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": text}
        body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        try:
            self._cluster.patch(PODS, pod.name, body, pod.namespace, patch_type="strategic", subresource="status")
        except NoSuchObject:
            return
        self._write_event(pod, text, count)

    def _write_event(
        self, pod: PodRef, text: str, count: int, *, reason: str = "FailedScheduling", kind: str = "Warning"
    ) -> None:
        """Write the event of a pod. Each pod has one event, which counts repetitions, so that a long wait makes no long
        list.
        """
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        changing = {"type": kind, "reason": reason, "message": text, "count": count, "lastTimestamp": now}
        changing |= {"reportingInstance": self._tag}
        # A shortened name may end in "-" or ".", which is invalid before a dot.
        name = f"{pod.name[:200].rstrip('-.')}.{pod.uid[:36]}"
        event = {
            "metadata": {"name": name, "namespace": pod.namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": pod.namespace,
                "name": pod.name,
                "uid": pod.uid,
            },
            "source": {"component": "corral"},
            "reportingComponent": "corral",
            "firstTimestamp": now,
            **changing,
        }
        try:
            self._cluster.create(EVENTS, event, pod.namespace)
        except AlreadyExists:
            self._cluster.patch(EVENTS, name, changing, pod.namespace)
