"""A node of a cluster in terms of the model: its devices, the pods of others on it, and the state of each device.
Pure.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from corral.core.model.devices.device import Device, DeviceSample, HeldPart, HoldingPod, HostUse, Node
from corral.core.model.devices.means import HostMeans
from corral.core.model.placing.placement_rules import HOSTNAME_LABEL, Labels, Resident
from corral.engines.kubernetes.cluster.amounts import Amounts
from corral.engines.kubernetes.cluster.gpu_resources import gpu_labels
from corral.engines.kubernetes.cluster.node_facts import NodeFacts
from corral.engines.kubernetes.inventory.devices import devices_of, shared_devices, sick_count, slot_count
from corral.engines.kubernetes.inventory.occupants import Occupant, PodName
from corral.engines.kubernetes.inventory.readings.gpu_reading import NO_READINGS, GpuReading, NodeReadings
from corral.engines.kubernetes.inventory.shared_slots import held_parts
from corral.engines.kubernetes.inventory.slots import PodClaim, SlotUse, assign, readings_by_slot
from corral.engines.kubernetes.shares.served_shares import ServedShares

MIB = 1024 * 1024

NOTHING_HELD: Mapping[PodName, Collection[int]] = {}


@dataclass(frozen=True, slots=True)
class SeenNode:
    """The state of one node at one moment.

    Attributes:
        facts: the facts from the cluster.
        node: its inventory.
        use: the use of its slots.
        holders: the slots of each pod that has some, to match readings by. None if slots are slices or
            shares of GPUs, to which readings of whole GPUs do not apply.
        samples: one of each device: its pod, its health, and its reading, if any.
        read: the readings in the samples.
        devices_of: the part of a report that its devices are of; None if they are counted.
    """

    facts: NodeFacts
    node: Node
    use: SlotUse
    holders: Mapping[PodName, Collection[int]] | None
    samples: tuple[DeviceSample, ...]
    read: NodeReadings = NO_READINGS
    devices_of: object = None


def see_node(
    facts: NodeFacts,
    others: Iterable[Occupant],
    held: Collection[int],
    before: SeenNode | None,
    now: float,
    *,
    chosen: Collection[int] = (),
    own: Mapping[PodName, Collection[int]] = NOTHING_HELD,
    shared: ServedShares | None = None,
    closed: str | None = None,
) -> SeenNode:
    """Return the node without readings: `with_readings` adds them.

    Args:
        facts: the node.
        others: the pods on it that belong to no job.
        held: the slots of jobs.
        before: the last state of the node.
        now: Unix seconds.
        chosen: the slots that jobs are about to get.
        own: the slots that jobs have, by their pods.
        shared: the devices of which the node gives parts; None if it gives whole ones.
        closed: why the node takes no work, a sentence without its full stop; None if it takes some.
    """
    # A device of a job stays listed, even if the node no longer reports it.
    known = slot_count(facts, shared)
    slots = max(known, max(held, default=-1) + 1)
    sick = sick_count(facts, shared) + slots - known
    ordered = in_order(others)
    claims = [PodClaim(one.uid, slots if one.unreadable is not None else one.gpus) for one in ordered]
    parts: Mapping[int, tuple[HeldPart, ...]] = {}
    if shared is not None:
        parts = held_parts(slots, shared, ordered)
        claims = [PodClaim(one.uid, slots) for one in ordered if one.unreadable or one.unread_shares]
    use = assign(slots, held, claims, sick, SlotUse() if before is None else before.use, chosen=chosen)
    same = before is not None and before.facts is facts and len(before.node.devices) == slots
    devices = devices_of(facts, slots) if shared is None else shared_devices(facts, shared, slots)
    bare = before.node if before is not None and same else bare_node(facts, devices, closed)
    node = peopled(bare, facts, ordered)
    pods = {one.uid: one.pod for one in ordered}
    holders = None if shared is not None or _in_parts(facts) else _holders(use, pods, own)
    return SeenNode(facts, node, use, holders, _samples(node, pods, use, _Shared(parts, _known_sick(shared)), now))


def in_order(others: Iterable[Occupant]) -> list[Occupant]:
    """Return the pods in a stable order, the oldest first."""
    return sorted(others, key=lambda one: (one.pod.created_at or 0.0, one.pod.namespace, one.pod.name))


def peopled(bare: Node, facts: NodeFacts, others: Sequence[Occupant]) -> Node:
    """Return the node with the pods on it that belong to no job."""
    return replace(
        bare,
        taken=_taken(facts.allocatable, others),
        most_members=max(0, facts.allocatable.pods - len(others)),
        others=tuple(Resident(one.tags, one.apart, foreign=True) for one in others),
    )


def with_readings(seen: SeenNode, read: NodeReadings, now: float) -> SeenNode:
    """Return the node with these readings in place of the earlier ones.

    Readings change every few seconds on all nodes at once, so this only touches the parts that depend on them.

    Args:
        seen: the node, with any readings or none.
        read: the readings of its GPUs.
        now: the time of samples that lose their reading, Unix seconds.
    """
    by_slot: Mapping[int, GpuReading] = {}
    if read.gpus and seen.holders is not None:
        by_slot = readings_by_slot(len(seen.samples), seen.holders, read.gpus)
    samples = tuple(
        _metered(sample, by_slot[slot], read.taken_at) if slot in by_slot else _unmetered(sample, now)
        for slot, sample in enumerate(seen.samples)
    )
    return SeenNode(seen.facts, seen.node, seen.use, seen.holders, samples, read)


def silence_of(facts: NodeFacts) -> str | None:
    """Return why nothing can start on a node, a sentence without its full stop; None if its kubelet answers."""
    if facts.unreadable is not None:
        return f"node {facts.name} cannot be used: {facts.unreadable}"
    if facts.ready is True:
        return None
    return f"node {facts.name} is not ready" + (f": {facts.not_ready_why}" if facts.not_ready_why else "")


def why_closed(facts: NodeFacts) -> str | None:
    """Why no model service can be put on a node by its name, whatever it asks for; None if some can."""
    if (silence := silence_of(facts)) is not None:
        return silence
    if not facts.labels.get(HOSTNAME_LABEL):
        return f"it has no label {HOSTNAME_LABEL}, by which it could be named"
    return None


def bare_node(facts: NodeFacts, devices: tuple[Device, ...], closed: str | None) -> Node:
    """Return the node without the workloads on it."""
    total, found = facts.allocatable, gpu_labels(facts)
    return Node(
        name=facts.name,
        devices=devices,
        cpu_milli=total.cpu_milli,
        memory_mib=total.memory_bytes // MIB,
        disk_mib=total.ephemeral_storage_bytes // MIB,
        labels=_labels(facts),
        driver_version=found.driver_version,
        cuda_version=found.cuda_version,
        cordoned=_cordon(facts) or closed,
        boot_id=facts.boot_id,
        taints=facts.taints,
        # The cluster's device plugin gives a pod the files of its own GPUs alone.
        host_means=HostMeans(unfenced=None),
    )


def _taken(total: Amounts, others: Sequence[Occupant]) -> HostUse:
    if any(one.unreadable is not None for one in others):
        return HostUse(total.cpu_milli, total.memory_bytes // MIB, total.ephemeral_storage_bytes // MIB)
    return HostUse(
        sum(one.requests.cpu_milli for one in others),
        _mib(sum(one.requests.memory_bytes for one in others)),
        _mib(sum(one.requests.ephemeral_storage_bytes for one in others)),
    )


def _mib(size_bytes: int) -> int:
    """Return a size in whole MiB, rounded up: a MiB that is partly taken is not free."""
    return -(-size_bytes // MIB)


def _labels(facts: NodeFacts) -> Labels:
    """Return the node's own labels and no others: its kubelet compares them again with a pod's selectors.

    The hostname label is left out if it equals the name, so that the planner sees otherwise equal nodes as equal.
    """
    kept = {key: value for key, value in facts.labels.items() if (key, value) != (HOSTNAME_LABEL, facts.name)}
    return _shared(tuple(sorted(kept.items())))


@lru_cache(maxsize=1_000)
def _shared(labels: Labels) -> Labels:
    """Return one shared value for equal labels."""
    return labels


def _cordon(facts: NodeFacts) -> str | None:
    if not facts.unschedulable:
        return None
    return f"cordoned in Kubernetes; kubectl uncordon {facts.name} lets jobs start there again"


def _in_parts(facts: NodeFacts) -> bool:
    """Return whether the node's slots are slices or shares of GPUs, to which readings of whole GPUs do not apply."""
    found = gpu_labels(facts)
    return found.profile is not None or found.shared_by is not None


def _holders(
    use: SlotUse, pods: Mapping[str, HoldingPod], own: Mapping[PodName, Collection[int]]
) -> Mapping[PodName, Collection[int]]:
    holders = {name: set(of_pod) for name, of_pod in own.items()}
    for slot, uid in use.pods.items():
        if (pod := pods.get(uid)) is not None:
            holders.setdefault((pod.namespace, pod.name), set()).add(slot)
    return holders


def _metered(sample: DeviceSample, reading: GpuReading, taken_at: float) -> DeviceSample:
    """Return a sample with the cluster's facts of `sample`, and with this reading."""
    return DeviceSample(
        sample.uuid,
        taken_at,
        utilization_pct=None if reading.utilization_pct is None else round(reading.utilization_pct),
        memory_used_mib=reading.memory_used_mib,
        memory_free_mib=reading.memory_free_mib,
        memory_total_mib=reading.memory_total_mib,
        temperature_c=None if reading.temperature_c is None else round(reading.temperature_c),
        power_mw=None if reading.power_w is None else round(1000 * reading.power_w),
        sm_clock_mhz=None if reading.sm_clock_mhz is None else round(reading.sm_clock_mhz),
        pod=sample.pod,
        illness=sample.illness,
        counted=True,
        parts=sample.parts,
    )


def _unmetered(sample: DeviceSample, now: float) -> DeviceSample:
    """Return a sample with the cluster's facts of `sample`, without a reading."""
    if not sample.metered:
        return sample
    return DeviceSample(
        sample.uuid, now, metered=False, pod=sample.pod, illness=sample.illness, counted=True, parts=sample.parts
    )


class _Shared(NamedTuple):
    """The parts that pods have, by slot, and the slots whose devices are registered as unhealthy."""

    parts: Mapping[int, tuple[HeldPart, ...]]
    sick: frozenset[int]


def _known_sick(shared: ServedShares | None) -> frozenset[int]:
    """Return the slots whose devices are registered as unhealthy."""
    devices = () if shared is None else shared.devices
    return frozenset(slot for slot, device in enumerate(devices) if not device.healthy)


def _samples(
    node: Node,
    pods: Mapping[str, HoldingPod],
    use: SlotUse,
    shared: "_Shared",
    now: float,
) -> tuple[DeviceSample, ...]:
    healthy, slots = len(node.devices) - len(use.sick), len(node.devices)
    registered = f"node {node.name} has registered it as unhealthy"
    illness = f"only {healthy} of {slots} GPUs of node {node.name} are healthy, and its cluster does not tell which"
    return tuple(
        DeviceSample(
            device.uuid,
            now,
            metered=False,
            pod=pods.get(use.pods.get(device.index, "")),
            illness=registered if device.index in shared.sick else illness if device.index in use.sick else None,
            counted=True,
            parts=shared.parts.get(device.index, ()),
        )
        for device in node.devices
    )
