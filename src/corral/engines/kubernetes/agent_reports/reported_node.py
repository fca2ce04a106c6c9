"""A node whose devices an agent reports, in terms of the model. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from corral.core.model.devices.device import Device, DeviceProcess, DeviceSample, HeldPart, HoldingPod, Node
from corral.core.model.devices.means import Means
from corral.core.model.runs.launch import job_of
from corral.core.model.units import MILLI_PER_DEVICE
from corral.engines.kubernetes.agent.agent_report import OWN_PLUGIN
from corral.engines.kubernetes.agent_reports.given_devices import given_to_pods, whole_devices
from corral.engines.kubernetes.agent_reports.report_box import NodeReport
from corral.engines.kubernetes.cluster.gpu_resources import gpus_of
from corral.engines.kubernetes.cluster.node_facts import NodeFacts
from corral.engines.kubernetes.inventory.devices import (
    UNKNOWN_MODEL,
    devices_of,
    is_counted,
    shared_devices,
    slot_count,
    slot_of_id,
)
from corral.engines.kubernetes.inventory.occupants import Occupant, PodName
from corral.engines.kubernetes.inventory.seen_node import SeenNode, bare_node, in_order, peopled
from corral.engines.kubernetes.inventory.shared_slots import held_parts
from corral.engines.kubernetes.inventory.slots import PodClaim, SlotUse, assign
from corral.engines.kubernetes.shares.served_shares import ServedShares, SharedDevice


@dataclass(frozen=True, slots=True)
class Reported:
    """A node that has an agent.

    Attributes:
        last: its last report; None if it has sent none since the server's start.
        trouble: why its devices cannot be read, a sentence without its full stop; None if they can.
        since: since when they cannot, Unix seconds.
    """

    last: NodeReport | None
    trouble: str | None = None
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class HeldByLaunch:
    """The devices of a launch by the ledger, and its pod, which may not exist yet."""

    launch_id: str
    pod: PodName
    uuids: tuple[str, ...]


def are_parts(facts: NodeFacts) -> bool:
    """Return whether the cluster's devices are parts of GPUs that another device plugin makes: they are counted."""
    return any(device.replica or device.mig_profile is not None for device in devices_of(facts, slot_count(facts)))


def gives_parts(last: NodeReport, shared: ServedShares) -> bool:
    """Return whether Corral's own device plugin gives the parts of this node's devices."""
    return any(one.by == OWN_PLUGIN and one.resource in shared.offered_as for one in last.report.served)


def shares_by_report(shared: ServedShares | None, last: NodeReport) -> ServedShares | None:
    """Return the devices of which Corral's own plugin gives parts, as the agent reports them; None if it gives none."""
    if shared is None or not gives_parts(last, shared):
        return None
    devices = tuple(SharedDevice(one.uuid, one.memory_mib, one.model) for one in whole_devices(last.report))
    # A container that takes its device by UUID is no client of a daemon.
    return replace(shared, devices=devices, sick=0, by_uuid=shared.layer.means is Means.HOOK)


def counted_devices(facts: NodeFacts, shared: ServedShares | None, slots: int) -> tuple[Device, ...]:
    """Return the devices of slots 0 to `slots` - 1 of a node without a report."""
    return devices_of(facts, slots) if shared is None else shared_devices(facts, shared, slots)


def devices_by_count(facts: NodeFacts, held: Iterable[str], shared: ServedShares | None) -> tuple[Device, ...]:
    """Return as many devices as the cluster counts. Those of jobs (`held`) are among them, whatever their names."""
    count = slot_count(facts, shared)
    uuids = dict.fromkeys(held)
    slots = {slot_of_id(uuid) for uuid in uuids if is_counted(uuid)}
    exact = [uuid for uuid in uuids if not is_counted(uuid)]
    most = max(count, max(slots, default=-1) + 1)
    all_of_them = counted_devices(facts, shared, most + len(exact))
    kept = [device for device in all_of_them[:most] if device.index in slots]
    idle = [device for device in all_of_them[:most] if device.index not in slots]
    kept += idle[: max(0, count - len(kept) - len(exact))]
    named = [replace(all_of_them[most + number], uuid=uuid) for number, uuid in enumerate(exact)]
    return (*sorted(kept, key=lambda device: device.index), *named)


def see_reported(
    facts: NodeFacts,
    reported: Reported,
    others: Iterable[Occupant],
    held: Sequence[HeldByLaunch],
    *,
    before: SeenNode | None,
    now: float,
    shared: ServedShares | None = None,
    closed: str | None = None,
) -> SeenNode:
    """Return the node with the devices and samples of its agent's report.

    Args:
        facts: the node.
        reported: what its agent says of it.
        others: the pods on it that belong to no job.
        held: what launches have.
        before: the last state of the node.
        now: Unix seconds.
        shared: the devices of which the node gives parts, by its amounts.
        closed: why the node takes no work, a sentence without its full stop; None if it takes some.
    """
    ordered = in_order(others)
    uuids = {uuid: None for one in held for uuid in one.uuids}
    if reported.last is None:
        devices = devices_by_count(facts, uuids, shared)
        node = peopled(bare_node(facts, devices, closed), facts, ordered)
        samples = _unreadable(devices, reported, now)
        return SeenNode(facts, node, SlotUse(), None, samples)
    shared = shares_by_report(shared, reported.last)
    # A pod that comes or goes changes the node many times between two reports, and most reports have the same devices.
    report = reported.last.report
    devices_of = report.node, report.served
    same = before is not None and before.facts is facts and before.devices_of == devices_of
    if same and before is not None and uuids.keys() <= {device.uuid for device in before.node.devices}:
        bare = before.node
    else:
        devices = _devices(facts, reported.last, uuids, before, shared=shared)
        bare = _with_report(bare_node(facts, devices, closed), reported.last.report.node)
    node = peopled(bare, facts, ordered)
    if reported.trouble is not None:
        return SeenNode(facts, node, SlotUse(), None, _unreadable(node.devices, reported, now), devices_of=devices_of)
    whom = _Holders(facts, reported.last, node.devices, ordered, held, shared=shared)
    samples = tuple(whom.sample(device, now) for device in node.devices)
    return SeenNode(facts, node, whom.use, None, samples, devices_of=devices_of)


def _devices(
    facts: NodeFacts,
    last: NodeReport,
    held: Iterable[str],
    before: SeenNode | None,
    *,
    shared: ServedShares | None,
) -> tuple[Device, ...]:
    """Return the report's devices. A device of a job stays listed, even if the agent no longer reports it."""
    whole = whole_devices(last.report)
    # What pods can have of a device follows from what the cluster offers, whatever the agent's host could do with it.
    likes = counted_devices(facts, shared, len(whole))
    found = [
        replace(device, means=like.means if shared is not None else Means.EXCLUSIVE, offered_as=like.offered_as)
        for device, like in zip(whole, likes, strict=True)
    ]
    there = {device.uuid for device in found}
    earlier = {} if before is None else {device.uuid: device for device in before.node.devices}
    index = max((device.index for device in found), default=-1)
    for number, uuid in enumerate((uuid for uuid in held if uuid not in there), index + 1):
        known = earlier.get(uuid) or Device(uuid, number, UNKNOWN_MODEL, None, means=Means.EXCLUSIVE)
        found.append(replace(known, index=number))
    return tuple(found)


def _with_report(node: Node, told: Node) -> Node:
    return replace(
        node,
        driver_version=told.driver_version or node.driver_version,
        cuda_version=told.cuda_version or node.cuda_version,
    )


def _unreadable(devices: Iterable[Device], reported: Reported, now: float) -> tuple[DeviceSample, ...]:
    at = reported.since or now
    return tuple(DeviceSample(device.uuid, at, fault=reported.trouble, metered=False) for device in devices)


class _Holders:
    """The holders of the devices of a node, by the ledger, the kubelet and the requests of pods."""

    def __init__(
        self,
        facts: NodeFacts,
        last: NodeReport,
        devices: Sequence[Device],
        others: Sequence[Occupant],
        held: Sequence[HeldByLaunch],
        *,
        shared: ServedShares | None,
    ) -> None:
        self._node = facts.name
        self._last = last
        self._samples = {sample.uuid: sample for sample in last.report.samples}
        self._place = {device.uuid: place for place, device in enumerate(devices)}
        self._launch_of_pod = {one.pod: one for one in held}
        self._launches: dict[str, list[str]] = {}
        for one in held:
            for uuid in one.uuids:
                self._launches.setdefault(uuid, []).append(one.launch_id)
        self._shared = shared
        self._parts = self._parts_of_others(others)
        self._parts_of_pods = {(pod, uuid) for uuid, parts in self._parts.items() for pod, _ in parts}
        self._pods: dict[str, HoldingPod] = {}
        self.use = self._assigned(facts, devices, others)

    def _assigned(self, facts: NodeFacts, devices: Sequence[Device], others: Sequence[Occupant]) -> SlotUse:
        """Give other pods the devices that the kubelet gave them, and the last free ones as long as it tells none."""
        known = {one.key: one for one in others}
        given = given_to_pods(self._last.report)
        before: dict[int, str] = {}
        claims: list[PodClaim] = []
        for pod in [*known, *(pod for pod in given if pod not in known)]:
            mine = self._launch_of_pod.get(pod)
            own = () if mine is None else mine.uuids
            uuids = [
                uuid
                for uuid in given.get(pod, ())
                # Several pods may have slices of a device: it counts once.
                if uuid not in own and self._place[uuid] not in before and not self._has_part(pod, uuid)
            ]
            occupant = known.get(pod)
            uid = f"{pod[0]}/{pod[1]}" if occupant is None else occupant.uid
            before |= {self._place[uuid]: uid for uuid in uuids}
            claims.append(PodClaim(uid, max(self._asked(occupant, len(devices)), len(uuids))))
            self._pods[uid] = HoldingPod(*pod) if occupant is None else occupant.pod
        there = whole_devices(self._last.report)
        cut = {device.uuid for device in there if device.mig_enabled}
        bad = frozenset(
            place
            for uuid, place in self._place.items()
            if (sample := self._samples.get(uuid)) is None or sample.fault is not None or uuid in cut
        )
        held = {self._place[uuid] for uuid in self._launches}
        sick = max(0, len(there) - _offered(facts, self._last))
        return assign(len(devices), held, claims, sick, SlotUse(before, bad))

    def _asked(self, occupant: Occupant | None, most: int) -> int:
        """Return how many whole devices a pod takes, all of them if that cannot be read."""
        if occupant is None:
            return 0
        unread = occupant.unreadable is not None or (self._shared is not None and occupant.unread_shares)
        return most if unread else occupant.gpus

    def sample(self, device: Device, now: float) -> DeviceSample:
        """Return the last sample of a device, with the pods on it."""
        place = self._place[device.uuid]
        sample = self._samples.get(device.uuid)
        if sample is None:
            why = "the agent of its node does not report it" if self._is_gone(device.uuid) else "not sampled yet"
            sample = DeviceSample(device.uuid, self._last.heard_at, fault=why)
        few = None
        if place in self.use.sick:
            healthy = len(self._place) - len(self.use.sick)
            few = f"only {healthy} of {len(self._place)} GPUs of node {self._node} are offered by its cluster"
        parts, pod = self._parts.get(device.uuid, ()), self._pods.get(self.use.pods.get(place, ""))
        if not sample.processes and few is None and pod is None and not parts:
            return sample
        return replace(
            sample,
            processes=None if sample.processes is None else self._processes(device.uuid, sample.processes),
            pod=pod,
            parts=tuple(part for _, part in parts),
            illness=sample.illness or few,
        )

    def _is_gone(self, uuid: str) -> bool:
        return all(device.uuid != uuid for device in self._last.report.node.devices)

    def _processes(self, uuid: str, processes: Iterable[DeviceProcess]) -> tuple[DeviceProcess, ...]:
        """Return the processes with their jobs, without those of pods that have a part of the device."""
        launches = self._launches.get(uuid, [])
        alone = job_of(launches[0]) if len(launches) == 1 else None
        found: list[DeviceProcess] = []
        for process in processes:
            pod = self._last.process_pods.get(process.pid)
            mine = None if pod is None else self._launch_of_pod.get(pod)
            if pod is not None and self._has_part(pod, uuid):
                continue
            job_id = job_of(mine.launch_id) if mine is not None else alone if pod is None else None
            found.append(replace(process, job_id=job_id))
        return tuple(found)

    def _parts_of_others(self, others: Iterable[Occupant]) -> dict[str, list[tuple[PodName, HeldPart]]]:
        known = {one.key: one.pod for one in others}
        found: dict[str, list[tuple[PodName, HeldPart]]] = {}
        for share in self._last.report.shares:
            pod = share.namespace, share.pod
            part_of_known = share.device_uuid in self._place and share.share_milli < MILLI_PER_DEVICE
            if pod not in self._launch_of_pod and part_of_known:
                part = HeldPart(known.get(pod) or HoldingPod(*pod), share.share_milli, share.memory_mib)
                found.setdefault(share.device_uuid, []).append((pod, part))
        if self._shared is not None:
            told = {(share.namespace, share.pod) for share in self._last.report.shares}
            # The plugin has not told yet where these are.
            for one in (one for one in others if one.key not in told):
                for slot, parts in held_parts(len(self._shared.devices), self._shared, [one]).items():
                    uuid = self._shared.devices[slot].uuid or ""
                    found.setdefault(uuid, []).extend((one.key, part) for part in parts)
        return found

    def _has_part(self, pod: PodName, uuid: str) -> bool:
        return (pod, uuid) in self._parts_of_pods


def _offered(facts: NodeFacts, last: NodeReport) -> int:
    """Return how many of the devices the cluster gives to pods. A device plugin of Corral's own gives all of them."""
    if any(one.by == OWN_PLUGIN for one in last.report.served):
        return len(whole_devices(last.report))
    return gpus_of(facts.allocatable)
