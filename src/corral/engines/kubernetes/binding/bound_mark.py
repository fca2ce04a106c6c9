"""The annotation that a Binding writes on its pod: the server that bound it, and the launch. Pure.

The annotation names the server because two servers may have the same launch id: each server counts its jobs from 1.
"""

from collections.abc import Callable, Iterable, Mapping

from corral.core.model.jobs.pod_ref import PodRef
from corral.engines.kubernetes.binding.pods_of_others import BOUND_FOR, PodOfOthers

PodOf = Callable[[str], PodRef | None]
"""Returns the pod of a launch by the launch's id; None if the ledger has none."""

PresentOf = Callable[[str], str]
"""Returns the present launch of the member that a launch was of."""


class BoundMarks:
    """The marks of one server, by its tag. Anybody can write a mark, so it counts only on the pod of its launch.

    A slow API server may carry out a binding after the launch was given up. The mark then counts for the member's
    present launch.
    """

    def __init__(self, tag: str, pod_of: PodOf, present_of: PresentOf = lambda launch_id: launch_id) -> None:
        self.tag = tag
        self._pod_of = pod_of
        self._present_of = present_of
        self._bound_before: set[PodRef] = set()

    def of(self, launch_id: str) -> Mapping[str, str]:
        """Return the annotation for the pod of a launch."""
        return {BOUND_FOR: f"{self.tag}/{launch_id}"}

    def note_bound_before(self, pods: Iterable[PodRef]) -> None:
        """Record pods that an earlier process of this server may have bound without its tag in the mark."""
        self._bound_before.update(pods)

    def named(self, pod: PodOfOthers) -> str | None:
        """Return the launch that the mark on a pod names; None if the mark is not this server's."""
        mark = pod.mark(BOUND_FOR)
        tag, slash, launch_id = (mark or "").partition("/")
        if slash:
            return launch_id if tag == self.tag else None
        return tag if pod.ref in self._bound_before else None

    def launch_of(self, pod: PodOfOthers) -> str | None:
        """Return the launch for which this server bound the pod; None if it did not bind the pod."""
        launch_id = self.named(pod)
        if launch_id is None or self._pod_of(launch_id) != pod.ref:
            return None
        return self._present_of(launch_id)
