"""The annotation that a Binding writes on its pod: the server that bound it, and the launch. Pure.

It names the server because launch ids of two servers are equal: each server counts its jobs from 1.
"""

from collections.abc import Callable, Iterable, Mapping

from corral.core.model.jobs.pod_ref import PodRef
from corral.engines.kubernetes.binding.pods_of_others import PodOfOthers

BOUND_FOR = "corral.dev/bound-for"
"""The annotation TAG/LAUNCH. Older servers wrote the launch without the tag."""

PodOf = Callable[[str], PodRef | None]
"""The pod of a launch, by the launch's id; None if the ledger knows none."""


class BoundMarks:
    """The marks of one server, by its tag. Anybody can write a mark, so it counts only on the pod of its launch."""

    def __init__(self, tag: str, pod_of: PodOf) -> None:
        self.tag = tag
        self._pod_of = pod_of
        self._bound_before: set[PodRef] = set()

    def of(self, launch_id: str) -> Mapping[str, str]:
        """Return the annotation for the pod of a launch."""
        return {BOUND_FOR: f"{self.tag}/{launch_id}"}

    def note_bound_before(self, pods: Iterable[PodRef]) -> None:
        """An earlier process of this server may have bound these, and have written no tag."""
        self._bound_before.update(pods)

    def named(self, pod: PodOfOthers) -> str | None:
        """The launch that a mark on a pod names, if it may be this server's."""
        mark = pod.mark(BOUND_FOR)
        tag, slash, launch_id = (mark or "").partition("/")
        if slash:
            return launch_id if tag == self.tag else None
        return tag if pod.ref in self._bound_before else None

    def launch_of(self, pod: PodOfOthers) -> str | None:
        """The launch of this server's for which it bound the pod; None if it did not."""
        launch_id = self.named(pod)
        return launch_id if launch_id is not None and self._pod_of(launch_id) == pod.ref else None
