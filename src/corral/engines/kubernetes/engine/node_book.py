"""The known state of each node of a cluster: facts from the caches, and the slots of jobs. Does no I/O."""

import math
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from corral.clock import Clock
from corral.core.model.devices.device import Device
from corral.core.model.runs.launch import DeviceUse, Launch
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.sharing.definitions import Catalogue
from corral.engines.kubernetes.agent_reports.reported_node import (
    HeldByLaunch,
    Reported,
    see_reported,
    shares_by_report,
)
from corral.engines.kubernetes.cluster.gpu_resources import gpus_of
from corral.engines.kubernetes.cluster.node_facts import NodeFacts
from corral.engines.kubernetes.cluster.watch_state import Change
from corral.engines.kubernetes.inventory.devices import is_counted, slot_count, slot_of_id
from corral.engines.kubernetes.inventory.occupants import Occupant, PodName
from corral.engines.kubernetes.inventory.readings.cluster_readings import GpuContainer, is_exporter
from corral.engines.kubernetes.inventory.readings.gpu_reading import NO_READINGS, GpuReading, NodeReadings
from corral.engines.kubernetes.inventory.seen_node import SeenNode, see_node, silence_of, with_readings
from corral.engines.kubernetes.inventory.shared_slots import held_parts
from corral.engines.kubernetes.shares.means_label import kept_to_label
from corral.engines.kubernetes.shares.placed_share import PlacedShare
from corral.engines.kubernetes.shares.served_shares import ServedShares, contested, served_shares
from corral.vendors.vendor import PlacedPart

CHOSEN_S = 10.0
"""For this long, devices chosen for a start are not shown as devices of other pods. Only the display uses it."""

READINGS_EVERY_S = 0.5
"""Readings of agents alone are told together, at this interval. A round looks at all nodes, whatever has changed."""

AHEAD_S = 5.0
"""A pod that was read on a node counts for this long before its watch reports it. It may have gone meanwhile."""


@dataclass(slots=True)
class _Held:
    """The resources of a launch on its node: its devices, milli-GPU of each, and its pod, which may not exist yet."""

    uuids: tuple[str, ...]
    pod: PodName
    milli: tuple[int, ...] = ()

    @property
    def slots(self) -> dict[int, int]:
        """The milli-GPU of each slot among its devices."""
        pairs = zip(self.uuids, self.milli, strict=True)
        return {slot_of_id(uuid): milli for uuid, milli in pairs if is_counted(uuid)}


@dataclass(slots=True)
class _KnownNode:
    facts: NodeFacts | None = None
    shared: ServedShares | None = None
    """The devices of which the node gives parts; None if it gives whole ones."""
    closed: str | None = None
    """Why the node takes no work, by the label that says how its devices are given."""
    kept: str | None = None
    """Why the node gives its devices in fewer ways than its software could, a clause."""
    occupants: dict[PodName, Occupant] = field(default_factory=dict)
    held: dict[str, _Held] = field(default_factory=dict)
    chosen: dict[int, float] = field(default_factory=dict)
    """Slots that are about to be held, each with the time until which that counts (monotonic seconds)."""
    ahead: dict[PodName, tuple[Occupant, float]] = field(default_factory=dict)
    """Pods of others that were read before the watch reported them, each with the time until which they count
    (monotonic seconds).
    """
    others_came_s: float = -math.inf
    """The time (monotonic seconds) at which the last pod of others came."""
    read: NodeReadings = NO_READINGS
    reported: Reported | None = None
    """The report of its agent; None if it has no agent, and its devices are counted."""
    renaming: str | None = None
    """Why nothing starts on it while its devices get other names."""
    seen: SeenNode | None = None
    changed: bool = True
    """Whether anything but the readings has changed since the last view of the node."""

    def is_own(self, pod: PodName) -> bool:
        """Return whether a launch has this pod."""
        return any(held.pod == pod for held in self.held.values())

    def others(self) -> list[Occupant]:
        """Return the pods on the node that do not belong to a launch."""
        own = {held.pod for held in self.held.values()}
        ahead = (one for one, _ in self.ahead.values())
        return [one for one in (*self.occupants.values(), *ahead) if one.key not in own]


@dataclass(frozen=True, slots=True)
class Happened:
    """The changes since the last call: nodes that changed, and launches by node."""

    nodes: Collection[str]
    launches: dict[str, tuple[str, ...]]


class NodeBook:
    """The nodes of one cluster. Safe from any thread. Every call but `wait` returns at once."""

    def __init__(self, clock: Clock, catalogue: Catalogue | None = None, *, means_label: str | None = None) -> None:
        """`catalogue` has the resource names of the site; None means those that come with Corral.

        `means_label` is the label of nodes that says how their GPUs are given; None if none says it.
        """
        self._means_label = means_label
        self._clock = clock
        self._catalogue = catalogue
        self._changed = threading.Condition()
        self._nodes: dict[str, _KnownNode] = {}
        self._dirty: dict[str, None] = {}
        self._read: dict[str, None] = {}
        """Nodes of which nothing but the readings of their agents has changed."""
        self._read_told_s = -math.inf
        """When these were told last, seconds of `time.monotonic`."""
        self._launches: dict[str, dict[str, None]] = {}
        self._places: dict[str, str] = {}
        """The node of each launch that holds resources, by launch id."""
        self._with_ahead: set[str] = set()
        """Nodes with pods that were read before the watch reported them."""

    # From the caches

    def nodes_changed(self, changes: Iterable[Change[NodeFacts]]) -> None:
        """Handle nodes that came, changed or were deleted."""
        with self._changed:
            for old, new in changes:
                told = new or old
                assert told is not None, "a change has an object before or after it"
                known = self._known(told.name)
                known.facts, known.shared, known.closed, known.kept = new, None, None, None
                if new is not None:
                    served = served_shares(new, self._catalogue)
                    known.shared, known.closed, kept = kept_to_label(new, self._means_label, served)
                    known.kept = kept or _fought(new)
                self._touch(told.name)
                self._drop_if_empty(told.name)

    def occupants_changed(self, changes: Iterable[Change[Occupant]]) -> None:
        """Handle pods that came to nodes, changed there, or left them."""
        with self._changed:
            for old, new in changes:
                if old is not None:
                    self._known(old.node).occupants.pop(old.key, None)
                    self._touch(old.node)
                    self._drop_if_empty(old.node)
                if new is not None:
                    self._known(new.node).occupants[new.key] = new
                    self._touch(new.node)
                for told in (old, new):
                    if told is not None and (known := self._nodes.get(told.node)) is not None:
                        known.ahead.pop(told.key, None)
                        if old is None and not known.is_own(told.key):
                            known.others_came_s = self._clock.monotonic()

    def readings_taken(self, found: Mapping[str, Sequence[GpuReading]], taken_at: float, oldest: float) -> None:
        """Store readings by node, taken at `taken_at` (Unix seconds). Older readings than `oldest` are dropped."""
        with self._changed:
            for name, known in self._nodes.items():
                gpus = found.get(name)
                if gpus:
                    known.read = NodeReadings(taken_at, tuple(gpus))
                elif known.read.gpus and known.read.taken_at < oldest:
                    known.read = NO_READINGS
                else:
                    continue
                self._tell(name)

    def launch_changed(self, launch_id: str) -> None:
        """Record that a launch may have a new report."""
        with self._changed:
            node = self._places.get(launch_id)
            if node is not None:
                self._launches.setdefault(node, {})[launch_id] = None
                self._changed.notify_all()

    def note_ahead(self, node: str, read: Iterable[Occupant]) -> None:
        """Record pods that are on a node now, although the watch may not have reported them yet."""
        until_s = self._clock.monotonic() + AHEAD_S
        with self._changed:
            known = self._known(node)
            new = [one for one in read if one.key not in known.occupants and not known.is_own(one.key)]
            known.ahead |= {one.key: (one, until_s) for one in new}
            if new:
                self._with_ahead.add(node)
                self._touch(node)

    def others_came_since(self, node: str, since_s: float) -> bool:
        """Return whether a pod of others has come to a node since a time of the monotonic clock."""
        with self._changed:
            known = self._nodes.get(node)
            return known is not None and known.others_came_s > since_s

    def overbooked(self, node: str) -> int:
        """Return by how many GPUs the jobs and the pods of others exceed the healthy GPUs of a node."""
        with self._changed:
            known = self._nodes.get(node)
            if known is None or known.facts is None:
                return 0
            if known.shared is not None:
                return 0 if known.reported is not None else _overbooked_in_parts(known, known.shared)
            held = sum(held.milli.count(MILLI_PER_DEVICE) for held in known.held.values())
            return held + sum(one.gpus for one in known.others()) - gpus_of(known.facts.allocatable)

    # The slots of jobs

    def choose(self, node: str, slots: Iterable[int]) -> None:
        """Record that these slots are about to be given to a job."""
        until_s = self._clock.monotonic() + CHOSEN_S
        with self._changed:
            known = self._known(node)
            known.chosen.update(dict.fromkeys(slots, until_s))
            known.changed = True

    def hold(self, launch: Launch, pod: PodName) -> None:
        """Record that the launch has its devices, and `pod` is its pod."""
        uuids = tuple(use.device.uuid for use in launch.uses)
        with self._changed:
            known = self._known(launch.node)
            held = _Held(uuids, pod, tuple(use.newcomer.grant.share_milli for use in launch.uses))
            known.held[launch.id] = held
            for slot in held.slots:
                known.chosen.pop(slot, None)
            self._places[launch.id] = launch.node
            self._touch(launch.node)

    def exchange(self, node: str, devices: Mapping[str, Sequence[Device]]) -> None:
        """Record that launches on a node have these devices instead, by launch id."""
        with self._changed:
            known = self._known(node)
            for launch_id, theirs in devices.items():
                if (held := known.held.get(launch_id)) is not None:
                    known.held[launch_id] = replace(held, uuids=tuple(device.uuid for device in theirs))
            self._touch(node)

    def release(self, launch_id: str) -> None:
        """Record that the launch holds nothing any more."""
        with self._changed:
            node = self._places.pop(launch_id, None)
            if node is not None:
                self._known(node).held.pop(launch_id, None)
                self._touch(node)

    def hold_alone(self, node: str, launches: Collection[Launch]) -> None:
        """Release the launches that hold resources of the node and are not among `launches`."""
        kept = {launch.id for launch in launches}
        with self._changed:
            gone = [launch_id for launch_id in self._known(node).held if launch_id not in kept]
        for launch_id in gone:
            self.release(launch_id)

    # Agents on nodes

    def report(self, node: str, reported: Reported | None) -> None:
        """Record what a node's agent reports; None if the node has no agent. The node is open again."""
        with self._changed:
            known = self._known(node)
            if (known.reported is None) is not (reported is None):
                known.seen = None
            if known.reported is not reported or known.renaming is not None:
                only_readings = known.renaming is None and _differ_in_readings(known.reported, reported)
                known.reported, known.renaming = reported, None
                if only_readings:
                    known.changed = True
                    self._read[node] = None
                    if len(self._read) == 1:
                        self._changed.notify_all()
                else:
                    self._touch(node)

    def close(self, node: str, why: str) -> None:
        """Let nothing start on a node until its agent's next report is recorded. `why` has no full stop."""
        with self._changed:
            known = self._known(node)
            if known.renaming != why:
                known.renaming = why
                self._touch(node)

    def reported(self, node: str) -> Reported | None:
        """Return what was recorded last of a node's agent; None if its devices are counted."""
        with self._changed:
            known = self._nodes.get(node)
            return None if known is None else known.reported

    def held_on(self, node: str) -> list[HeldByLaunch]:
        """Return the launches that hold resources of a node."""
        with self._changed:
            known = self._nodes.get(node)
            return [] if known is None else _held(known)

    def nodes(self) -> list[tuple[NodeFacts, ServedShares | None]]:
        """Return the nodes that the cluster has now, each with the devices of which it gives parts."""
        with self._changed:
            return [(known.facts, known.shared) for known in self._nodes.values() if known.facts is not None]

    # The known state

    def placed(self, launch: Launch) -> PlacedShare:
        """Return the devices of a launch as its node's software knows them."""
        with self._changed:
            known = self._known(launch.node)
            last = None if known.reported is None else known.reported.last
            shared = known.shared if last is None else shares_by_report(known.shared, last)
        return PlacedShare(shared, tuple(_placed_part(use, shared) for use in launch.uses), self._catalogue)

    def contested(self) -> dict[str, tuple[str, ...]]:
        """Return the nodes that offer their devices in more than one way, with the resources by which they do."""
        with self._changed:
            nodes = [known.facts for known in self._nodes.values() if known.facts is not None]
        return {facts.name: names for facts in nodes if (names := contested(facts))}

    def wait(self, timeout_s: float) -> Happened:
        """Wait for changes, or until the time is up. Each change is returned once.

        Readings of agents are returned with the next other change, `READINGS_EVERY_S` after those before, or when the
        time is up.
        """
        end_s = time.monotonic() + timeout_s
        with self._changed:
            while not self._dirty and not self._launches:
                now_s = time.monotonic()
                until_s = min(end_s, self._read_told_s + READINGS_EVERY_S) if self._read else end_s
                if now_s >= until_s:
                    break
                self._changed.wait(until_s - now_s)
            self._drop_what_is_not_told()
            dirty, self._dirty = self._dirty | self._read, {}
            if self._read:
                self._read, self._read_told_s = {}, time.monotonic()
            launches, self._launches = self._launches, {}
        return Happened(tuple(dirty), {node: tuple(ids) for node, ids in launches.items()})

    def tell_again(self, happened: Happened) -> None:
        """Put back changes that could not be reported."""
        with self._changed:
            self._dirty.update(dict.fromkeys(happened.nodes))
            for node, ids in happened.launches.items():
                self._launches.setdefault(node, {}).update(dict.fromkeys(ids))

    def wake(self) -> None:
        """Wake the waiting thread."""
        with self._changed:
            self._dirty.setdefault("", None)
            self._changed.notify_all()

    def names(self) -> frozenset[str]:
        """Return the names of the nodes that the cluster has now."""
        with self._changed:
            return frozenset(name for name, known in self._nodes.items() if known.facts is not None)

    def gpu_nodes(self) -> list[NodeFacts]:
        """Return the nodes that have GPUs now."""
        with self._changed:
            return [
                known.facts for known in self._nodes.values() if known.facts and slot_count(known.facts, known.shared)
            ]

    def exporters(self) -> dict[str, PodName]:
        """Return the dcgm-exporter pod of each node that has one. It must belong to a DaemonSet: any pod can have any
        label.
        """
        with self._changed:
            return {
                name: pod
                for name, known in self._nodes.items()
                for pod, one in known.occupants.items()
                if is_exporter(one.tags) and (one.pod.owner or "").startswith("DaemonSet/")
            }

    def gpu_containers(self) -> list[GpuContainer]:
        """Return the running containers of pods with GPUs."""
        with self._changed:
            return [
                GpuContainer(name, *pod, container)
                for name, known in self._nodes.items()
                for pod, one in known.occupants.items()
                for container in one.running
            ]

    def unattributed(self) -> dict[str, tuple[GpuReading, ...]]:
        """Return the readings of nodes on which no reading could be matched to a device."""
        with self._changed:
            return {
                name: known.read.gpus
                for name, known in self._nodes.items()
                if known.read.gpus
                and known.seen
                and not known.reported
                and not any(sample.metered for sample in known.seen.samples)
            }

    def silences(self) -> dict[str, str | None]:
        """Return for each node why nothing can start there, or None."""
        with self._changed:
            return {
                name: silence_of(known.facts) or known.renaming
                for name, known in self._nodes.items()
                if known.facts is not None
            }

    def silence(self, node: str) -> str | None:
        """Return why nothing can start on a node, None if something can."""
        with self._changed:
            known = self._nodes.get(node)
            if known is None or known.facts is None:
                return f"the cluster has no node {node} any more"
            return silence_of(known.facts) or known.renaming

    def see(self, node: str) -> SeenNode | None:
        """Return the current state of the node, or None if the cluster has no node of that name."""
        now, now_s = self._clock.now(), self._clock.monotonic()
        with self._changed:
            known = self._nodes.get(node)
            if known is None or known.facts is None:
                return None
            if known.seen is None or known.changed:
                known.seen, known.changed = _seen(known, known.facts, now, now_s), False
            if known.reported is None and known.seen.read is not known.read:
                known.seen = with_readings(known.seen, known.read, now)
            return known.seen

    def _drop_what_is_not_told(self) -> None:
        now_s = self._clock.monotonic()
        for name in tuple(self._with_ahead):
            known = self._known(name)
            kept = {key: one for key, one in known.ahead.items() if one[1] > now_s}
            if len(kept) < len(known.ahead):
                known.ahead = kept
                self._touch(name)
            if not kept:
                self._with_ahead.discard(name)
                self._drop_if_empty(name)

    def _known(self, node: str) -> _KnownNode:
        known = self._nodes.get(node)
        if known is None:
            known = self._nodes[node] = _KnownNode()
        return known

    def _drop_if_empty(self, node: str) -> None:
        known = self._nodes[node]
        if known.facts is None and not known.occupants and not known.held and not known.ahead and not known.reported:
            del self._nodes[node]

    def _touch(self, node: str) -> None:
        """Record that something other than the node's readings has changed."""
        self._nodes[node].changed = True
        self._tell(node)

    def _tell(self, node: str) -> None:
        self._dirty[node] = None
        self._changed.notify_all()


def _fought(facts: NodeFacts) -> str | None:
    names = contested(facts)
    return f"it offers the same GPUs by {' and '.join(names)}, so it gives no parts of them" if names else None


def _seen(known: _KnownNode, facts: NodeFacts, now: float, now_s: float) -> SeenNode:
    """Return the node without its readings. `now` is in Unix seconds, `now_s` by the monotonic clock."""
    seen = _seen_devices(known, facts, now, now_s)
    return seen if known.kept is None else replace(seen, node=replace(seen.node, kept_to=known.kept))


def _seen_devices(known: _KnownNode, facts: NodeFacts, now: float, now_s: float) -> SeenNode:
    if known.reported is not None:
        held = _held(known)
        return see_reported(
            facts,
            known.reported,
            known.others(),
            held,
            before=known.seen,
            now=now,
            shared=known.shared,
            closed=known.closed,
        )
    own = {held.pod: held.slots for held in known.held.values()}
    slots = {slot for held in known.held.values() for slot in held.slots}
    chosen = {slot for slot, until_s in known.chosen.items() if until_s > now_s}
    others = known.others()
    return see_node(
        facts, others, slots, known.seen, now, chosen=chosen, own=own, shared=known.shared, closed=known.closed
    )


def _differ_in_readings(before: Reported | None, now: Reported | None) -> bool:
    """Return whether two reports of a node, both readable, say the same of everything but the state of devices."""
    if before is None or now is None or before.last is None or now.last is None:
        return False
    if before.trouble is not None or now.trouble is not None:
        return False
    old, new = before.last.report, now.last.report
    same_node = old.node is new.node or old.node == new.node
    return same_node and (old.given, old.shares, old.served) == (new.given, new.shares, new.served)


def _overbooked_in_parts(known: _KnownNode, shared: ServedShares) -> int:
    """Return how many devices of jobs have more parts given away than they are whole."""
    own: dict[int, int] = {}
    for held in known.held.values():
        for slot, milli in held.slots.items():
            own[slot] = own.get(slot, 0) + milli
    parts = held_parts(len(shared.devices), shared, known.others())
    of_others = {slot: sum(part.share_milli for part in found) for slot, found in parts.items()}
    over = (milli + of_others.get(slot, 0) > MILLI_PER_DEVICE for slot, milli in own.items())
    gone = (slot >= len(shared.devices) or not shared.devices[slot].healthy for slot in own)
    return sum(map(bool, map(max, zip(over, gone, strict=True))))


def _placed_part(use: DeviceUse, shared: ServedShares | None) -> PlacedPart:
    grant = use.newcomer.grant
    if not is_counted(use.device.uuid):
        whole_mib = use.device.memory_mib if grant.share_milli == MILLI_PER_DEVICE else None
        memory_mib, cores = grant.memory_mib or whole_mib, use.newcomer.cores_percent or 0
        return PlacedPart(use.device.index, use.device.uuid, grant.share_milli, memory_mib, cores)
    slot = slot_of_id(use.device.uuid)
    known = shared.devices[slot] if shared is not None and slot < len(shared.devices) else None
    memory_mib = grant.memory_mib
    if memory_mib is None and known is not None and grant.share_milli == MILLI_PER_DEVICE:
        memory_mib = known.memory_mib
    uuid = None if known is None else known.uuid
    return PlacedPart(slot, uuid, grant.share_milli, memory_mib, use.newcomer.cores_percent or 0)


def _held(known: _KnownNode) -> list[HeldByLaunch]:
    return [HeldByLaunch(launch_id, held.pod, held.uuids) for launch_id, held in sorted(known.held.items())]
