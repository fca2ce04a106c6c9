"""What is set in a pod of a namespace that opts in, and whether it can ever run.

Nothing here bounds what a namespace may have: that is checked where the pod is bound, whether this was asked or not.
"""

import threading
import time
from collections.abc import Mapping
from typing import Any

from corral.core.model.errors import CorralError, Forbidden, Refused
from corral.engines.kubernetes.admission.review import Review, allowed, read_review, refused
from corral.engines.kubernetes.binding.pod_ask import PROJECT, QUEUE
from corral.engines.kubernetes.cluster.client import Cluster
from corral.engines.kubernetes.cluster.objects import annotations, labels, mapping, owner
from corral.engines.kubernetes.cluster.resource import NAMESPACES, OWN_NAMESPACE
from corral.engines.kubernetes.extender.placed_pods import PlacedPods

OPT_IN, OPTED_IN = "corral.dev/admission", "enabled"
"""The label of namespaces whose pods the webhook is asked about, and its value."""
SYSTEM = "kube-system"
USUAL_SCHEDULER = "default-scheduler"

NAMESPACE_S = 2.0
KEPT_S = 10.0
MOST_KEPT = 10_000


class PodAdmission:
    """Answers an API server about pods. Safe from any thread. `scheduler` is the name by which Corral binds pods."""

    def __init__(self, cluster: Cluster, pods: PlacedPods, scheduler: str) -> None:
        self._cluster = cluster
        self._pods = pods
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._namespaces: dict[str, tuple[float, Mapping[str, str]]] = {}

    def mutate(self, body: bytes) -> bytes:
        """Answer with what is set in a pod with GPUs: its scheduler, and queue and project by the labels of its
        namespace. A pod that names another scheduler stays as it is. Raises Refused for a body that is no review.
        """
        review = read_review(body)
        if not self._is_ours(review):
            return allowed(review)
        pod = review.pod
        spec, noted = mapping(pod.get("spec")), annotations(mapping(pod["metadata"]))
        named = spec.get("schedulerName") or USUAL_SCHEDULER
        if named not in (USUAL_SCHEDULER, self._scheduler) or not self._wants_gpus(pod):
            return allowed(review)
        patch: list[Mapping[str, Any]] = []
        if named != self._scheduler:
            patch.append({"op": "add", "path": "/spec/schedulerName", "value": self._scheduler})
        marked = self._labels_of(review.namespace)
        given = {name: marked[name] for name in (QUEUE, PROJECT) if name in marked and name not in noted}
        if given and not isinstance(mapping(pod["metadata"]).get("annotations"), dict):
            patch.append({"op": "add", "path": "/metadata/annotations", "value": {}})
        for name, value in given.items():
            patch.append({"op": "add", "path": f"/metadata/annotations/{name.replace('/', '~1')}", "value": value})
        return allowed(review, patch=patch)

    def validate(self, body: bytes) -> bytes:
        """Answer whether a pod that Corral is to bind can ever run, with the sentence by which the binding would refuse
        it. Raises Refused for a body that is no review.
        """
        review = read_review(body)
        if not self._is_ours(review) or mapping(review.pod.get("spec")).get("schedulerName") != self._scheduler:
            return allowed(review)
        try:
            _, spec = self._pods.spec(review.pod)
        except (Refused, Forbidden) as error:
            return refused(review, str(error))
        return allowed(review, warnings=spec.notes)

    def _is_ours(self, review: Review) -> bool:
        """Return whether the namespace can opt in at all. The webhook's configuration says which has."""
        return review.namespace not in (SYSTEM, OWN_NAMESPACE, self._cluster.namespace)

    def _wants_gpus(self, pod: Mapping[str, Any]) -> bool:
        """Return whether a pod asks for GPUs and is placed by a scheduler: a DaemonSet's pods have their nodes."""
        made_by = owner(mapping(pod["metadata"]))
        if made_by is not None and str(made_by).startswith("DaemonSet/"):
            return False
        return self._pods.asks_for_gpus(pod)

    def _labels_of(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace; none if the API server does not tell them in time."""
        now_s = time.monotonic()
        with self._lock:
            at, kept = self._namespaces.get(namespace, (now_s - KEPT_S, {}))
        if now_s - at < KEPT_S:
            return kept
        try:
            found = labels(mapping(self._cluster.get(NAMESPACES, namespace, timeout_s=NAMESPACE_S).get("metadata")))
        except CorralError:
            return kept
        with self._lock:
            if len(self._namespaces) >= MOST_KEPT:
                self._namespaces.clear()
            self._namespaces[namespace] = now_s, found
        return found
