"""Devices kept for pods that a filter has let through, until they are bound. Pure.

Between the answer of a filter and the binding nothing in the cluster says what the pod will take. Another filter in
that time would promise the same GPU again. A hold ends by itself: a filter may never bind.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from corral.core.model.jobs.pod_ref import PodRef
from corral.core.model.placing.allocation import Member

HOLD_S = 10.0
"""The longest time for which something is held: kube-scheduler commonly binds within 0.1 s."""

SEEN_S = 1.0
"""A pod that is seen on its node is still held for this long: the view may learn of it a moment later."""

MOST_HOLDS = 10_000


@dataclass(frozen=True, slots=True)
class PodHold:
    """The part of a node that a pod would take, and the end of its hold (monotonic seconds)."""

    pod: PodRef
    member: Member
    until_s: float


class PodHolds:
    """The holds of one extender, one for each pod. Not thread-safe."""

    def __init__(self) -> None:
        self._of: dict[PodRef, PodHold] = {}

    def hold(self, pod: PodRef, member: Member, now_s: float) -> None:
        """Keep this for a pod, in place of what was kept for it before."""
        self._of.pop(pod, None)
        while len(self._of) >= MOST_HOLDS:
            del self._of[next(iter(self._of))]
        self._of[pod] = PodHold(pod, member, now_s + HOLD_S)

    def release(self, pod: PodRef) -> None:
        """Keep nothing for a pod any more."""
        self._of.pop(pod, None)

    def seen(self, pod: PodRef, now_s: float) -> None:
        """Let the hold of a pod end soon, because the pod is seen on its node."""
        held = self._of.get(pod)
        if held is not None and held.until_s > now_s + SEEN_S:
            self._of[pod] = PodHold(pod, held.member, now_s + SEEN_S)

    def others(self, pod: PodRef, now_s: float) -> Iterator[PodHold]:
        """Yield what is held for other pods now."""
        for ended in [ref for ref, one in self._of.items() if one.until_s <= now_s]:
            del self._of[ended]
        return (one for ref, one in self._of.items() if ref != pod)
