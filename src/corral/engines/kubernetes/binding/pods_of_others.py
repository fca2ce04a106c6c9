"""The pods that name Corral as their scheduler, as the watch reports them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from corral.core.model.errors import Refused
from corral.core.model.jobs.pod_ref import PodRef
from corral.engines.kubernetes.binding.pod_ask import PodAsk, is_gated, read_ask
from corral.engines.kubernetes.cluster.cache import Cache
from corral.engines.kubernetes.cluster.object_watch import ObjectWatch
from corral.engines.kubernetes.cluster.objects import mapping
from corral.engines.kubernetes.cluster.pod_facts import PodFacts, read_pod
from corral.engines.kubernetes.shares.pod_shares import OWN_NAMES, PodShares
from corral.untrusted import Unread, guarded

SCHEDULER = "corral"
"""The `schedulerName` of pods that Corral binds, unless the site chooses another."""

BOUND_FOR = "corral.dev/bound-for"
"""The annotation TAG/LAUNCH that a Binding writes. Older servers wrote the launch without the tag."""


@dataclass(frozen=True, slots=True)
class PodOfOthers:
    """A pod that others created and that Corral binds.

    Attributes:
        facts: the facts that are read of any pod.
        gated: a scheduling gate blocks it.
        ask: its request; None if Corral cannot serve it, and once it is on a node.
        refusal: why Corral cannot serve it; None if it can.
    """

    facts: PodFacts
    gated: bool
    ask: PodAsk | None
    refusal: str | None = None

    @property
    def ref(self) -> PodRef:
        """The reference of the pod."""
        return PodRef(self.facts.namespace, self.facts.name, self.facts.uid)

    @property
    def waits(self) -> bool:
        """Whether the pod waits to be bound."""
        facts = self.facts
        return facts.node is None and facts.deleting_at_s is None and not facts.ended and not self.gated

    @property
    def gone(self) -> bool:
        """Whether the pod has ended, or its deletion was requested."""
        return self.facts.deleting_at_s is not None or self.facts.ended

    @property
    def ended_by_itself(self) -> bool:
        """Whether the pod succeeded, or ended before its deletion was requested."""
        return self.facts.phase == "Succeeded" or (self.facts.ended and self.facts.deleting_at_s is None)

    def mark(self, name: str) -> str | None:
        """Return an annotation that was written with the binding, or None for an unbound pod."""
        return self.facts.annotations.get(name) if self.facts.node is not None else None


def keep(item: Mapping[str, Any], scheduler: str, names: PodShares = OWN_NAMES) -> PodOfOthers | None:
    """Return the facts kept of a Pod object, or None if it names another scheduler and no server of Corral has bound
    it.
    """
    spec = mapping(item.get("spec"))
    if spec.get("schedulerName") == scheduler:
        return read(item, names)
    # Another scheduler may leave the binding to Corral.
    bound = "nodeName" in spec and BOUND_FOR in mapping(mapping(item.get("metadata")).get("annotations"))
    return read(item, names) if bound else None


def read(item: Mapping[str, Any], names: PodShares = OWN_NAMES) -> PodOfOthers:
    """Read a Pod object, whatever its scheduler is. `names` reads parts of GPUs."""
    facts = read_pod(item)
    if facts.node is not None:
        return PodOfOthers(facts, gated=False, ask=None)
    ask = guarded(f"pod {facts.namespace}/{facts.name}", partial(_ask_of, item, names))
    if isinstance(ask, PodAsk):
        return PodOfOthers(facts, is_gated(item), ask)
    return PodOfOthers(facts, is_gated(item), None, f"what it asks for {ask}" if isinstance(ask, Unread) else ask)


def _ask_of(item: Mapping[str, Any], names: PodShares) -> PodAsk | str:
    """Return the request of a pod, or why Corral cannot serve it."""
    try:
        return read_ask(item, names)
    except Refused as refused:
        return str(refused)


def pods_of_others(
    pods: ObjectWatch, *, scheduler: str = SCHEDULER, names: PodShares = OWN_NAMES
) -> Cache[PodOfOthers]:
    """Return a cache of the pods with this `schedulerName`. `names` reads parts of GPUs."""
    return pods.cache(partial(keep, scheduler=scheduler, names=names))
