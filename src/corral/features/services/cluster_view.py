"""The nodes of a cluster as the planner knows them, for those who have no server. It follows the cluster's objects."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from corral.clock import Clock, SystemClock
from corral.core.model.devices.device import DeviceCondition, HoldingPod, LastUse, Silence
from corral.core.model.fact import ConditionObserved, Delta, NodeObserved, NodeRemoved, SilenceObserved
from corral.core.model.placing.fit import fit_memo
from corral.core.model.view import View, ViewDraft
from corral.core.scheduling.state.capacity import Capacity
from corral.core.scheduling.state.draft import Draft
from corral.engines.kubernetes.cluster.amounts import Amounts
from corral.engines.kubernetes.cluster.gpu_resources import gpu_resource
from corral.engines.kubernetes.cluster.watch_state import Change
from corral.engines.kubernetes.engine.node_book import NodeBook
from corral.engines.kubernetes.inventory.occupants import Occupant, keep_occupant
from corral.engines.kubernetes.inventory.readings.cluster_readings import ReadingsFound
from corral.engines.kubernetes.inventory.seen_node import SeenNode, why_closed

_HELD = "held for services"
"""The name of what stands for GPUs whose pods are not there yet. No pod can have it."""


class ClusterView:
    """A view of the nodes with GPUs, and their free capacity. For one thread at a time.

    Without `hosts` it knows the GPUs of nodes alone: CPUs, memory and the number of pods keep nothing off a node.
    """

    def __init__(self, *, hosts: bool = False, clock: Clock | None = None) -> None:
        self.book = NodeBook(clock or SystemClock())
        self._hosts = hosts
        self._source = ViewDraft(View())
        self._capacity = Capacity(self._source)
        self._memo = fit_memo()
        self._partial: frozenset[str] = frozenset()
        self._held: dict[str, Occupant] = {}
        self.seen: dict[str, SeenNode] = {}

    def keep(self, item: Mapping[str, object]) -> Occupant | None:
        """Return what a Pod object has of a node, or None if it does not matter here."""
        found = keep_occupant(item)
        if found is None or self._hosts or found.gpus or found.unreadable is not None:
            return found
        return None

    def read(self, found: ReadingsFound, taken_at: float, oldest: float) -> None:
        """Take readings. Readings from before `oldest` do not count; both in Unix seconds."""
        self._partial = found.partial
        self.book.readings_taken(found.by_node, taken_at, oldest)

    def hold(self, held: Mapping[str, int]) -> None:
        """Set the GPUs that are held for services, by node; they replace those of the last call."""
        now = {name: _holder(name, gpus) for name, gpus in held.items() if gpus > 0}
        changed = [name for name in {**self._held, **now} if self._held.get(name) != now.get(name)]
        self.book.occupants_changed([Change(self._held.get(name), now.get(name)) for name in changed])
        self._held = now

    def draft(self) -> Draft:
        """Return the free capacity of the nodes as they are now known."""
        self.follow()
        return Draft(self._capacity, self._memo)

    def follow(self) -> None:
        """Bring the view up to date."""
        deltas = tuple(chain.from_iterable(map(self._news_of, sorted(self.book.wait(0.0).nodes))))
        self._source.apply(deltas)
        for delta in deltas:
            self._capacity.follow(delta)

    def _news_of(self, name: str) -> Sequence[Delta]:
        seen, before = self.book.see(name), self.seen.get(name)
        if seen is None or not seen.node.devices:
            self.seen.pop(name, None)
            return () if before is None else (NodeRemoved(name),)
        self.seen[name] = seen
        conditions = map(ConditionObserved, self._conditions(seen))
        if before is not None and before.node is seen.node:
            return tuple(conditions)
        node = seen.node if self._hosts else replace(seen.node, most_members=None)
        why = why_closed(seen.facts)
        silence = None if why is None else Silence(0.0, why)
        return NodeObserved(node), SilenceObserved(name, silence), *conditions

    def _conditions(self, seen: SeenNode) -> Iterable[DeviceCondition]:
        """Return the conditions of a node's devices. Readings rank the node, so any device may have any of them."""
        # Where only GPUs of pods can be read, the readings say nothing of the others.
        free_first = seen.facts.name not in self._partial
        ordered = sorted(seen.samples, key=lambda one: (one.pod is None) is not free_first)
        use_by = {one.uuid: use for one, use in zip(ordered, uses_of(seen), strict=False)}
        for one in seen.samples:
            yield DeviceCondition(one.uuid, unhealthy=one.illness, pod=one.pod, use=use_by.get(one.uuid))


def uses_of(seen: SeenNode) -> list[LastUse]:
    """Return the use of each GPU of a node of which all is read."""
    return [
        LastUse(one.utilization_pct, used_pct)
        for one in seen.read.gpus
        if one.utilization_pct is not None and (used_pct := one.memory_used_pct) is not None
    ]


def _holder(node: str, gpus: int) -> Occupant:
    return Occupant(_HELD, node, HoldingPod("", _HELD), Amounts(others={gpu_resource(None): gpus}), ())
