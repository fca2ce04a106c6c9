"""Has the plugin of a node serve one pod after the other, if it takes any pod that waits for it."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from corral.core.model.errors import NodeLacks
from corral.core.model.jobs.pod_ref import PodRef
from corral.engines.kubernetes.binding.pods_of_others import PodOfOthers
from corral.engines.kubernetes.cluster.cache import Cache
from corral.engines.kubernetes.cluster.watch_state import Change

TURN_S = 3.0
"""A binding waits at most this long for the pod before it, and is tried again later. A kubelet takes about a second."""


class ShareTurns:
    """The pods that wait for the plugins of their nodes. Safe from any thread."""

    def __init__(self, pods: Cache[PodOfOthers], wait_s: float = TURN_S) -> None:
        self._pods = pods
        self._wait_s = wait_s
        self._changed = threading.Condition()
        self._bound: dict[str, PodRef] = {}
        """The pod that was bound last to each node. The watch may not have reported it yet."""
        pods.subscribe(self._hear)

    @contextmanager
    def turn(self, node: str, ref: PodRef, mark: tuple[str, str]) -> Iterator[None]:
        """Bind a pod inside of this. `mark` is the annotation, and its value, of pods that were not served yet.

        Raises NodeLacks if another pod of the node still waits for its devices.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._before(node, ref, mark) is None, self._wait_s):
                before = self._before(node, ref, mark)
                raise NodeLacks(f"its pod {ref} is bound once node {node} has given pod {before} its GPUs")
            self._bound[node] = ref
        try:
            yield
        except BaseException:
            with self._changed:
                if self._bound.get(node) == ref:
                    del self._bound[node]
                self._changed.notify_all()
            raise

    def _before(self, node: str, ref: PodRef, mark: tuple[str, str]) -> PodRef | None:
        """Return a pod of the node that waits for its devices, other than this one; None if there is none."""
        last = self._bound.get(node)
        if last is not None and last != ref:
            found = self._pods.get(last.name, last.namespace)
            if found is not None and found.ref == last and found.facts.node is None:
                return last
        key, value = mark
        for one in self._pods.values():
            waits = one.facts.node == node and one.facts.phase == "Pending" and not one.gone
            if waits and one.ref != ref and one.facts.annotations.get(key) == value:
                return one.ref
        return None

    def _hear(self, changes: Sequence[Change[PodOfOthers]]) -> None:
        with self._changed:
            self._changed.notify_all()
