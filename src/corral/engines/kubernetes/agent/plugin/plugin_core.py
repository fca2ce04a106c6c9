"""Decides which pod an allocation of the kubelet is for, and whether it may have these devices. Does no I/O.

The kubelet does not say for which pod it allocates. So an allocation is matched by its resource, its number of devices
and the pods on the node that have none yet; pods that ask for the same may get each other's devices. Before it
allocates, the kubelet asks which devices are preferred: the answer is the devices that were planned for the next pod.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from corral.core.model.devices.device import Node
from corral.core.model.errors import Refused
from corral.core.model.printable import printable
from corral.core.scheduling.placing.closeness import best_set, layout
from corral.engines.kubernetes.agent.agent_report import GivenDevices, GivenShare
from corral.engines.kubernetes.agent.kubelet_api.allocations import KubeletChoice
from corral.engines.kubernetes.agent.plugin.bound_pods import BoundPod, ContainerAsk
from corral.engines.kubernetes.agent.plugin.offers import MILLI_PER_UNIT, UNITS, Offer, units_by_device, uuid_of

Place = tuple[str, str, str]
"""A container of a pod and a resource: the pod's UID, the container's name, the resource."""


@dataclass(frozen=True, slots=True)
class GivenToContainer:
    """Devices that a container has. `memory_mib` is what it may use of each; None is the memory of its share."""

    namespace: str
    pod: str
    pod_uid: str
    container: str
    resource: str
    device_ids: tuple[str, ...]
    memory_mib: int | None = None

    @property
    def place(self) -> Place:
        """Where the devices are."""
        return self.pod_uid, self.container, self.resource

    def __str__(self) -> str:
        return printable(f"pod {self.namespace}/{self.pod}")


@dataclass(frozen=True, slots=True)
class Book:
    """The state of the node at one moment, as far as it is known.

    Attributes:
        pods: the pods on it that ask for devices.
        given: what containers have.
        lapsed: places of `given` that the kubelet no longer knows: it allocates for them again.
    """

    pods: tuple[BoundPod, ...]
    given: tuple[GivenToContainer, ...]
    lapsed: frozenset[Place] = frozenset()

    def waiting(self, resource: str, count: int) -> Iterator["WaitingContainer"]:
        """The containers that ask for so many of a resource and have none, in the kubelet's order."""
        have = {one.place: one for one in self.given}
        for pod in sorted(self.pods, key=lambda pod: pod.order):
            for container in pod.containers:
                before = have.get((pod.uid, container.name, resource))
                again = None if before is None else before.device_ids
                if container.amounts.get(resource) != count or (before is not None and before.place not in self.lapsed):
                    continue
                left = None if pod.plan is None else self._left(pod, container, resource)
                yield WaitingContainer(pod, container, left, again)

    def units_of_others(self, pod_uid: str, resource: str) -> dict[str, int]:
        """The ids of each device that other pods have."""
        others = (one.device_ids for one in self.given if one.pod_uid != pod_uid and one.resource == resource)
        return units_by_device(tuple(chain.from_iterable(others)))

    def units_of(self, pod_uid: str, resource: str) -> dict[str, int]:
        """The ids of each device that a pod has."""
        own = (one.device_ids for one in self.given if one.pod_uid == pod_uid and one.resource == resource)
        return units_by_device(tuple(chain.from_iterable(own)))

    def held_otherwise(self, offer: Offer) -> dict[str, int]:
        """All ids of each device that a pod has by another resource: its sharing was changed meanwhile."""
        others = (one.device_ids for one in self.given if one.resource != offer.resource)
        held = units_by_device(tuple(chain.from_iterable(others)))
        return {uuid: offer.units for uuid in held if uuid in offer.by_uuid}

    def _left(self, pod: BoundPod, container: ContainerAsk, resource: str) -> dict[str, int]:
        """The planned units of a pod that none of its other containers has; those of init containers come again."""
        init = {one.name for one in pod.containers if one.init}
        left = _planned_units(pod)
        if container.init:
            return left
        for one in self.given:
            if (
                one.pod_uid == pod.uid
                and one.resource == resource
                and one.container != container.name
                and one.container not in init
            ):
                for uuid, units in units_by_device(one.device_ids).items():
                    left[uuid] = left.get(uuid, 0) - (units if ":" in one.device_ids[0] else UNITS)
        return left


@dataclass(frozen=True, slots=True)
class WaitingContainer:
    """A container without its devices.

    Attributes:
        left: the hundredths of each device that are planned for its pod, and that its other containers do not have;
            None if nothing is planned.
        again: the devices that it had before the kubelet forgot them.
    """

    pod: BoundPod
    container: ContainerAsk
    left: Mapping[str, int] | None
    again: tuple[str, ...] | None = None


class NotMatched(Refused):
    """No pod fits an allocation as far as is known: a newer view of the node may have one."""


def preferred(offer: Offer, book: Book, node: Node, choice: KubeletChoice) -> tuple[str, ...] | None:
    """The devices or parts that the next container should get, out of the available ones. None if no pod waits.

    A planned pod gets its plan. Another one gets well connected devices that are planned for nobody, and a part the
    fullest device that has room.
    """
    available = set(choice.available)
    choice = replace(choice, available=tuple(_in_order(available)))
    for waiting in book.waiting(offer.resource, choice.count):
        if waiting.again is not None:
            if set(waiting.again) <= available:
                return waiting.again
            continue
        if waiting.left is not None:
            chosen = _picked(offer, choice, waiting.left)
        else:
            kept = _planned_for_others(offer, book, waiting.pod.uid) | book.held_otherwise(offer)
            chosen = _unplanned(offer, node, choice, kept)
        return chosen if len(chosen) == choice.count else choice.available[: choice.count]
    return None


def matched(offer: Offer, book: Book, ids: Sequence[str]) -> GivenToContainer:
    """The container that gets these devices.

    Raises NotMatched if no container fits as far as is known, and Refused if the devices cannot be given at all.
    """
    unknown = next((one for one in ids if one not in offer.all_ids), None)
    if unknown is not None or len(set(ids)) != len(ids) or not ids:
        raise Refused(f"the node has no {offer.resource} {printable(str(unknown))}")
    for uuid in units_by_device(ids):
        illness = offer.by_uuid[uuid].illness
        if illness is not None:
            raise Refused(f"{uuid} is not given: {illness}")
    waiting = list(book.waiting(offer.resource, len(ids)))
    if not waiting:
        raise NotMatched(
            f"no pod on this node asks for {len(ids)} {offer.resource} and has none: the pod may have been deleted"
        )
    whys: list[str] = []
    for one in _planned_first(waiting):
        why = _misfit(offer, book, one, ids)
        if why is None:
            return _given(offer, book, one, ids)
        whys.append(why)
    raise NotMatched(whys[0])


def _planned_first(waiting: Sequence[WaitingContainer]) -> Iterator[WaitingContainer]:
    """Planned devices are for those for whom they were planned, whoever is first."""
    yield from (one for one in waiting if one.again is not None)
    yield from (one for one in waiting if one.again is None and one.left is not None)
    yield from (one for one in waiting if one.again is None and one.left is None)


def _misfit(offer: Offer, book: Book, waiting: WaitingContainer, ids: Sequence[str]) -> str | None:
    """Why a container may not have these devices, a sentence; None if it may."""
    pod, wanted, wanted_ids = waiting.pod, units_by_device(ids), set(ids)
    for holder in book.given:
        taken = set() if holder.pod_uid == pod.uid else wanted_ids.intersection(holder.device_ids)
        if taken:
            return f"{pod} was to get {min(taken)}, which {holder} has"
        # The site may have changed how the device is shared while a pod has it.
        otherwise = set() if holder.resource == offer.resource else wanted.keys() & units_by_device(holder.device_ids)
        if otherwise:
            return f"{pod} was to get {min(otherwise)}, which {holder} has as {holder.resource}"
    if waiting.again is not None:
        same = set(waiting.again) == set(ids)
        return None if same else f"{pod} has {_told(units_by_device(waiting.again), offer)}, and would get others"
    if pod.bad_plan:
        return f"the devices planned for {pod} cannot be read; submit it again"
    if waiting.left is not None:
        per_id = UNITS // offer.units
        if all(waiting.left.get(uuid, 0) >= units * per_id for uuid, units in wanted.items()):
            return None
        return _elsewhere(offer, book, waiting, wanted)
    if offer.units > 1 and len(wanted) > 1 and any(units < offer.units for units in wanted.values()):
        return f"{pod} asks for {len(ids)} of {offer.resource}, and no device has so many left on its own"
    kept = _planned_for_others(offer, book, pod.uid)
    of_others = book.units_of_others(pod.uid, offer.resource)
    for uuid, units in wanted.items():
        if of_others.get(uuid, 0) + kept.get(uuid, 0) + units > offer.units:
            return f"{pod} has no plan, and {uuid} is planned for another pod that is about to start"
    return None


def _elsewhere(offer: Offer, book: Book, waiting: WaitingContainer, wanted: Mapping[str, int]) -> str:
    """The sentence on a pod for which the kubelet has not chosen what was planned."""
    pod, plan = waiting.pod, _planned_units(waiting.pod)
    of_others = book.units_of_others(pod.uid, offer.resource)
    unknown = [uuid for uuid in plan if uuid not in offer.by_uuid]
    if unknown:
        return f"{pod} is planned on {', '.join(unknown)}, which this node does not offer as {offer.resource}"
    short = [
        f"{uuid}, of which {offer.units - of_others.get(uuid, 0)} of {offer.units} are free"
        for uuid, units in plan.items()
        if of_others.get(uuid, 0) + units * offer.units // UNITS > offer.units
    ]
    planned_ids = {uuid: units * offer.units // UNITS for uuid, units in plan.items()}
    where = "; ".join(short) if short else _told(planned_ids, offer)
    chosen = _told(wanted, offer)
    return f"{pod} is planned on {where}, and the kubelet chose {chosen}; delete the pod, and it is planned again"


def _told(units: Mapping[str, int], offer: Offer) -> str:
    return ", ".join(uuid if offer.units == 1 else f"{count} of {uuid}" for uuid, count in units.items())


def _given(offer: Offer, book: Book, waiting: WaitingContainer, ids: Sequence[str]) -> GivenToContainer:
    """The record of what the container gets. Raises Refused if the memory of a device does not suffice."""
    pod = waiting.pod
    place = pod.uid, waiting.container.name, offer.resource
    before = next((one for one in book.given if one.place == place), None)
    memory_mib = _memory_mib(offer, pod, waiting.container, ids) if before is None else before.memory_mib
    given = GivenToContainer(
        pod.namespace, pod.name, pod.uid, waiting.container.name, offer.resource, tuple(ids), memory_mib
    )
    if offer.units > 1:
        for uuid in units_by_device(ids):
            _check_memory(offer, book, given, uuid)
    return given


def exchanged(offer: Offer, book: Book, kubelet: Sequence[GivenDevices], ids: Sequence[str]) -> str | None:
    """Why the container that has these parts must not start, a sentence; None if it may, or is not known.

    Pods that ask for the same parts of a device, and for different memory, may have got each other's limits.
    """
    has = next((one for one in kubelet if one.resource == offer.resource and set(one.device_ids) == set(ids)), None)
    limits = {one.memory_mib for one in book.given if set(one.device_ids) == set(ids)}
    pod = next((one for one in book.pods if has and (one.namespace, one.name) == (has.namespace, has.pod)), None)
    container = next((one for one in pod.containers if has and one.name == has.container), None) if pod else None
    if pod is None or container is None or len(limits) != 1:
        return None
    own_mib, limit_mib = _memory_mib(offer, pod, container, ids), limits.pop()
    if own_mib == limit_mib:
        return None
    return (
        f"{pod} is to get {own_mib} MiB of {', '.join(units_by_device(ids))}, and the kubelet gave it the limit of "
        f"another pod, {limit_mib} MiB; delete the pod, and it is planned again"
    )


def _memory_mib(offer: Offer, pod: BoundPod, container: ContainerAsk, ids: Sequence[str]) -> int | None:
    """The memory of each device that a container gets: what it asks for, else what is planned, else its part."""
    if offer.memory is None:
        return None
    wanted = units_by_device(ids)
    asked = container.amounts.get(offer.memory.name)
    if asked:
        return asked * offer.memory.unit_mib // len(wanted)
    for one in pod.plan or ():
        if one.uuid in wanted and one.memory_mib is not None:
            return one.memory_mib
    uuid, units = next(iter(wanted.items()))
    memory_mib = offer.by_uuid[uuid].device.memory_mib
    return None if memory_mib is None else memory_mib * units // offer.units


def _check_memory(offer: Offer, book: Book, given: GivenToContainer, uuid: str) -> None:
    whole_mib = offer.by_uuid[uuid].device.memory_mib
    if whole_mib is None or given.memory_mib is None:
        raise Refused(f"{uuid} does not say how much memory it has, so {given} cannot be held to a part of it")
    if given.memory_mib <= 0:
        # To the software that keeps containers to their memory, a limit of 0 is none.
        raise Refused(f"{given} asks for less than 1 MiB of each of its devices; ask for more memory")
    taken_mib = sum(
        one.memory_mib or 0
        for one in book.given
        if one.place != given.place and uuid in units_by_device(one.device_ids)
    )
    if taken_mib + given.memory_mib > whole_mib:
        raise Refused(
            f"{given} is to get {given.memory_mib} MiB of {uuid}, which has {whole_mib} MiB, of which "
            f"{whole_mib - taken_mib} MiB are free"
        )


def _planned_units(pod: BoundPod) -> dict[str, int]:
    """The planned hundredths of each device."""
    found: dict[str, int] = {}
    for one in pod.plan or ():
        found[one.uuid] = found.get(one.uuid, 0) + -(-one.share_milli // MILLI_PER_UNIT)
    return found


def _planned_for_others(offer: Offer, book: Book, pod_uid: str) -> dict[str, int]:
    """The ids of each device that are planned for other pods, which do not have them yet."""
    kept: dict[str, int] = {}
    for pod in book.pods:
        if pod.uid == pod_uid:
            continue
        has, plan = book.units_of(pod.uid, offer.resource), _planned_units(pod)
        planned = {uuid: units * offer.units // UNITS for uuid, units in plan.items()}
        # Who may write pods could plan for one what it does not ask for, so that nobody got it.
        if sum(has.values()) < pod.asked(offer.resource) >= sum(planned.values()):
            for uuid, units in planned.items():
                kept[uuid] = kept.get(uuid, 0) + max(0, units - has.get(uuid, 0))
    return kept


def _in_order(available: Collection[str]) -> list[str]:
    """The kubelet has them in no order."""
    return sorted(available, key=lambda one: (uuid_of(one), len(one), one))


def _picked(offer: Offer, choice: KubeletChoice, hundredths: Mapping[str, int]) -> tuple[str, ...]:
    """The ids of these amounts of devices, with those that are required; as many as there are, up to the count."""
    left = {uuid: units * offer.units // UNITS for uuid, units in hundredths.items()}
    chosen: list[str] = []
    for one in dict.fromkeys((*choice.required, *choice.available)):
        if len(chosen) < choice.count and left.get(uuid_of(one), 0) > 0:
            left[uuid_of(one)] -= 1
            chosen.append(one)
    return tuple(chosen)


def _unplanned(offer: Offer, node: Node, choice: KubeletChoice, kept_free: Mapping[str, int]) -> tuple[str, ...]:
    in_all = units_by_device(choice.available)
    free = {uuid: units - kept_free.get(uuid, 0) for uuid, units in in_all.items() if uuid in offer.by_uuid}
    if offer.units > 1 and choice.count < offer.units:
        fullest = sorted((units, uuid) for uuid, units in free.items() if units >= choice.count)
        uuids = [uuid for _, uuid in fullest[:1]]
    else:
        must = list(units_by_device(choice.required))
        able = [uuid for uuid, units in free.items() if units >= offer.units and uuid not in must]
        uuids = [*must, *_well_connected(node, able, -(-choice.count // offer.units) - len(must))]
    return _picked(offer, choice, dict.fromkeys(uuids, UNITS))


def _well_connected(node: Node, able: Sequence[str], count: int) -> Sequence[str]:
    """So many of the devices, by NVLink, PCIe switch and NUMA node."""
    if count <= 0 or len(able) <= count:
        return able[: max(count, 0)]
    slots = tuple(slot for slot, device in enumerate(node.devices) if device.uuid in able)
    of_node = layout(node)
    chosen = slots[:count] if of_node is None else best_set(of_node, slots, count)
    return [node.devices[slot].uuid for slot in chosen]


def reconciled(book: Book, kubelet: Sequence[GivenDevices] | None, resources: Collection[str]) -> Book:
    """The book by what the kubelet says it has given; None if it does not say.

    The kubelet knows the pods, so its word counts: pods that asked for the same may have got each other's devices.
    A part's memory stays with the part. What pods had that have ended, or are gone, is free.
    """
    uid_of = {(pod.namespace, pod.name): pod.uid for pod in book.pods}
    alive = {pod.uid for pod in book.pods}
    kept = {one.place: one for one in book.given if one.pod_uid in alive}
    if kubelet is None:
        return replace(book, given=tuple(kept.values()))
    memory_of = {one.device_ids[0]: one.memory_mib for one in book.given}
    told: dict[Place, GivenToContainer] = {}
    for one in kubelet:
        uid = uid_of.get((one.namespace, one.pod))
        if one.resource in resources and uid is not None and one.device_ids:
            ids = tuple(_in_order(one.device_ids))
            memory_mib = next((memory_of[found] for found in ids if found in memory_of), None)
            given = GivenToContainer(one.namespace, one.pod, uid, one.container, one.resource, ids, memory_mib)
            told[given.place] = given
    taken = set(chain.from_iterable(one.device_ids for one in told.values()))
    untold = {place: one for place, one in kept.items() if place not in told and not taken.intersection(one.device_ids)}
    return Book(book.pods, (*told.values(), *untold.values()), frozenset(untold))


def shares(given: Sequence[GivenToContainer]) -> tuple[GivenShare, ...]:
    """Return the devices of pods for the report on the node: a line for each pod and device."""
    found: dict[tuple[str, str], GivenShare] = {}
    for one in given:
        for uuid, units in units_by_device(one.device_ids).items():
            whole = one.device_ids[0] == uuid
            share_milli = MILLI_PER_UNIT * (UNITS if whole else units)
            share = GivenShare(one.namespace, one.pod, one.pod_uid, uuid, share_milli, one.memory_mib)
            before = found.get((one.pod_uid, uuid))
            if before is not None and not whole:
                memory = None if one.memory_mib is None else (before.memory_mib or 0) + one.memory_mib
                share = replace(share, share_milli=before.share_milli + share_milli, memory_mib=memory)
            found[one.pod_uid, uuid] = share
    return tuple(found.values())
