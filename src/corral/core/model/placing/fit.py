"""The only feasibility test: does a request fit on a node in this state? It decides, and later it verifies."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from corral.core.model.devices.device import FIRST_VENDOR, DeviceState, NodeStatus
from corral.core.model.devices.means import Means
from corral.core.model.devices.model_and_profile_match import model_matches, profile_matches
from corral.core.model.jobs.job import Request
from corral.core.model.placing.allocation import Grant
from corral.core.model.placing.placement_rules import Labels, allows, node_preference, untolerated
from corral.core.model.placing.split import NoRoom, Strategy, fill, split
from corral.core.model.placing.state import (
    NodeState,
    Slot,
)
from corral.core.model.queues.quota import counted_milli
from corral.core.model.units import MILLI_PER_DEVICE, MW_PER_W, SHARE_QUANTUM_MILLI, slot_milli


class Cause(StrEnum):
    """The reasons why a device, or its node, cannot serve a request. Waiting never helps against the static causes."""

    NO_NODE = "no node"
    NODE_NAME = "node name"
    LABELS = "labels"
    DRIVER = "driver"
    CUDA = "cuda"
    VENDOR = "vendor"
    MODEL = "model"
    COMPUTE = "compute"
    MEMORY = "memory"
    POWER_LIMIT = "power limit"
    NOT_NAMED = "not named"
    AVOIDED = "avoided"
    PROFILE = "profile"
    MEANS = "means"
    RESOURCE = "resource"
    UNREADABLE = "unreadable"
    UNHEALTHY = "unhealthy"
    QUARANTINED = "quarantined"
    PROBATION = "probation"
    SUSPECT = "suspect"
    CORDONED = "cordoned"
    IN_USE = "in use"
    STALE = "stale"
    RESERVED = "reserved"
    ALLOCATED = "allocated"
    TENANT = "tenant"
    FREE_MEMORY = "free memory"
    POWER_BUDGET = "power budget"
    NODE_GONE = "node gone"
    NODE_SILENT = "node silent"
    NODE_DRAINING = "node draining"
    NODE_CORDONED = "node cordoned"
    CPU = "cpu"
    HOST_MEMORY = "host memory"
    DISK = "disk"
    MEMBERS = "members"
    TAINT = "taint"
    NODE_AFFINITY = "node affinity"
    AFFINITY = "affinity"
    ANTI_AFFINITY = "anti-affinity"
    SPREAD = "spread"


STATIC_CAUSES = frozenset(
    {
        *(Cause.NO_NODE, Cause.LABELS, Cause.DRIVER, Cause.CUDA, Cause.MODEL, Cause.COMPUTE, Cause.MEMORY),
        *(Cause.VENDOR, Cause.NOT_NAMED, Cause.PROFILE, Cause.MEANS, Cause.NODE_NAME, Cause.NODE_AFFINITY),
        *(Cause.POWER_LIMIT, Cause.RESOURCE),
    }
)
NODE_CAUSES = frozenset({Cause.NODE_GONE, Cause.NODE_SILENT, Cause.NODE_DRAINING, Cause.NODE_CORDONED})
"""Causes that keep everything off a node for now."""
HOST_CAUSES = frozenset({Cause.CPU, Cause.HOST_MEMORY, Cause.DISK, Cause.MEMBERS})
"""Causes that concern the host's amounts, not its devices."""

NEIGHBOUR_CAUSES = frozenset({Cause.AFFINITY, Cause.ANTI_AFFINITY, Cause.SPREAD})
"""Causes that concern jobs that run on the node, or do not."""
_EVICTABLE_CAUSES = frozenset(
    {Cause.ALLOCATED, Cause.TENANT, Cause.FREE_MEMORY, Cause.CPU, Cause.HOST_MEMORY, Cause.DISK, Cause.MEMBERS}
)


@dataclass(frozen=True, slots=True)
class Fit:
    """The request fits: these slots can serve it, in index order. Placement chooses among them.

    With `parts_milli` no single slot has the room: all of these slots are taken, with this much of each. If devices are
    filled, whole ones come first.
    """

    slots: tuple[int, ...]
    parts_milli: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Misfit:
    """The reason why a request does not fit, with the numbers.

    Attributes:
        cause: the cause that most devices (or the node itself) share.
        wanted: the requested amount, in the unit of `cause` (devices, milli-CPU, MiB).
        available: the available amount.
        devices: how many devices each cause rules out, most first: ((Cause.ALLOCATED, 5), (Cause.CORDONED, 1)).
        never: waiting cannot help, because the request exceeds the node itself.
        eviction_helps: the request would fit if jobs that hold devices ended.
        node: the node, if one node is meant.
    """

    cause: Cause
    wanted: int
    available: int
    devices: tuple[tuple[Cause, int], ...] = ()
    never: bool = False
    eviction_helps: bool = False
    node: str | None = None

    @property
    def capacity_helps(self) -> bool:
        """Whether the request may fit once jobs have ended. That removes no taint, and ends no pod of others."""
        if self.cause is Cause.ANTI_AFFINITY:
            return self.eviction_helps
        return not self.never and self.cause not in (Cause.TAINT, Cause.AFFINITY, Cause.SPREAD)


LEAST_MPS_MILLI = 30
"""The smallest share on MPS: a daemon takes at most 48 clients, and hundredths of a device would be twice as many."""


def fit(request: Request, state: NodeState, *, usable: Collection[int] | None = None) -> Fit | Misfit:
    """Whether one member of `request` fits on a node in `state`.

    `usable` are the slots whose devices the request may use (`Request.may_use`), None if it may use all: a state has no
    names.
    """
    misfit = _node_misfit(request, state)
    if misfit is not None:
        return misfit
    causes = [_slot_cause(request, slot, usable is None or i in usable) for i, slot in enumerate(state.slots)]
    able = tuple(i for i, cause in enumerate(causes) if cause is None)
    if request.split_milli is not None and (not able or request.split_milli > MILLI_PER_DEVICE):
        answer = _split_fit(request, request.split_milli, state, usable)
        # A request that one device can serve waits for one device, so splitting it does not matter here.
        if isinstance(answer, Fit) or request.split_milli > MILLI_PER_DEVICE:
            return answer
    if len(able) < request.devices:
        return _slots_misfit(request, [cause for cause in causes if cause is not None], len(able))
    return Fit(able)


def _split_fit(request: Request, wanted_milli: int, state: NodeState, usable: Collection[int] | None) -> Fit | Misfit:
    part = _part_of(request)
    causes = [_part_cause(part, slot, usable is None or i in usable) for i, slot in enumerate(state.slots)]
    room = [0 if cause else _room_milli(part, slot) for cause, slot in zip(causes, state.slots, strict=True)]
    parts = _split(request, wanted_milli, room)
    if not isinstance(parts, NoRoom):
        return _in_parts(request, parts)
    ever = [0 if cause in STATIC_CAUSES else MILLI_PER_DEVICE for cause in causes]
    evicted = [
        slot.open_milli if cause in (None, *_EVICTABLE_CAUSES) else 0
        for cause, slot in zip(causes, state.slots, strict=True)
    ]
    counts = sorted(((causes.count(c), c) for c in Cause if c in causes), key=lambda pair: -pair[0])
    never = isinstance(_split(request, wanted_milli, ever), NoRoom)
    return Misfit(
        next((c for _, c in counts if (c in STATIC_CAUSES) is never), Cause.ALLOCATED),
        -(-wanted_milli // MILLI_PER_DEVICE),
        sum(room) // MILLI_PER_DEVICE,
        devices=tuple((c, n) for n, c in counts),
        never=never,
        eviction_helps=not isinstance(_split(request, wanted_milli, evicted), NoRoom),
    )


def _in_parts(request: Request, parts: Sequence[int]) -> Fit:
    slots = [i for i, milli in enumerate(parts) if milli]
    if request.split is Strategy.FILL:
        slots.sort(key=lambda i: (parts[i] < MILLI_PER_DEVICE, i))
    return Fit(tuple(slots), tuple(parts[i] for i in slots))


def filled_from(request: Request, state: NodeState, wholes: Collection[int], *, among: Collection[int]) -> Fit:
    """The `Fit` of a request that fills devices and fits on `among`, with whole devices from `wholes` first."""
    room = [_room_milli(_part_of(request), slot) if i in among else 0 for i, slot in enumerate(state.slots)]
    parts = fill(request.split_milli or 0, room, refuse_fragmenting=not request.may_fragment, wholes=wholes)
    assert not isinstance(parts, NoRoom), "the request was said to fit on these slots"
    return _in_parts(request, parts)


def slots_with_room(request: Request, state: NodeState, usable: Collection[int] | None) -> list[int]:
    """The slots that can give a part of a split request."""
    part = _part_of(request)
    return [i for i, slot in enumerate(state.slots) if _part_cause(part, slot, usable is None or i in usable) is None]


def _split(request: Request, wanted_milli: int, room: Sequence[int]) -> tuple[int, ...] | NoRoom:
    if request.split is Strategy.FILL:
        return fill(wanted_milli, room, refuse_fragmenting=not request.may_fragment)
    return split(
        wanted_milli, room, strategy=request.split or Strategy.EVENLY, refuse_fragmenting=not request.may_fragment
    )


def _part_of(request: Request) -> Request:
    """The least that each device of a split request must be able to give."""
    return replace(request, split_milli=None, share_milli=SHARE_QUANTUM_MILLI)


def _part_cause(part: Request, slot: Slot, usable: bool) -> Cause | None:
    # The limits of a job come from one daemon or hook, which knows of one device.
    if slot.means in (Means.MPS, Means.HOOK):
        return Cause.MEANS
    # One part is work on one device, but the request has several parts.
    return _slot_cause(part, slot, usable) or (Cause.SUSPECT if slot.blocked is DeviceState.SUSPECT else None)


def _room_milli(part: Request, slot: Slot) -> int:
    """The milli-GPU that the slot can give to a split request, limited by its free memory."""
    proportional = part.memory_mib is None and part.memory_percent is None
    if not proportional or not slot.memory_mib or slot.free_mib is None:
        return slot.free_milli
    return min(slot.free_milli, slot.free_mib * MILLI_PER_DEVICE // slot.memory_mib)


def still_fits(request: Request, state: NodeState, slots: Sequence[int], grants: Sequence[Grant]) -> Misfit | None:
    """The reason why these grants on these slots are no longer possible, None if they are possible. Each part of a
    split is tested.
    """
    if request.split_milli is None or (len(grants) == 1 and request.split_milli <= MILLI_PER_DEVICE):
        answer = fit(request, state, usable=slots)
        return answer if isinstance(answer, Misfit) else None
    misfit = _node_misfit(request, state)
    if misfit is not None:
        return misfit
    for index, grant in zip(slots, grants, strict=True):
        part = replace(_part_of(request), share_milli=grant.share_milli, memory_mib=grant.memory_mib)
        cause = _part_cause(part, state.slots[index], True)
        if cause is not None:
            return Misfit(cause, 1, 0, never=cause in STATIC_CAUSES, eviction_helps=cause in _EVICTABLE_CAUSES)
    return None


def _node_misfit(request: Request, state: NodeState) -> Misfit | None:
    if not set(request.labels) <= set(state.labels):
        return Misfit(Cause.LABELS, len(request.labels), len(set(request.labels) & set(state.labels)), never=True)
    if request.min_driver is not None and (state.driver is None or state.driver < request.min_driver):
        return Misfit(Cause.DRIVER, request.min_driver[0], state.driver[0] if state.driver else 0, never=True)
    if request.min_cuda is not None and (state.cuda is None or state.cuda < request.min_cuda):
        return Misfit(Cause.CUDA, request.min_cuda[0], state.cuda[0] if state.cuda else 0, never=True)
    if request.rules is not None and not request.rules.by_name and not allows(request.rules, state.labels):
        return Misfit(Cause.NODE_AFFINITY, 1, 0, never=True)
    if state.status is not NodeStatus.READY:
        return Misfit(Cause(f"node {state.status}"), 1, 0)
    if state.taints and untolerated(state.taints, request.rules) is not None:
        return Misfit(Cause.TAINT, 1, 0)
    if state.members_left is not None and state.members_left < 1:
        return Misfit(Cause.MEMBERS, 1, 0, eviction_helps=True)
    if request.cpu_milli > state.cpu_milli:
        return Misfit(Cause.CPU, request.cpu_milli, state.cpu_milli, eviction_helps=True)
    if request.host_memory_mib > state.memory_mib:
        return Misfit(Cause.HOST_MEMORY, request.host_memory_mib, state.memory_mib, eviction_helps=True)
    if request.disk_mib > state.disk_mib:
        return Misfit(Cause.DISK, request.disk_mib, state.disk_mib, eviction_helps=True)
    return None


def _slot_cause(request: Request, slot: Slot, usable: bool) -> Cause | None:
    """The first reason why the slot cannot serve the request, None when it can."""
    grant_mib = grant_memory_mib(request, slot) or 0
    if not usable:
        return Cause.NOT_NAMED if request.device_uuids else Cause.AVOIDED
    if (request.vendor or FIRST_VENDOR) != slot.vendor:
        return Cause.VENDOR
    if not model_matches(request.models, slot.model):
        return Cause.MODEL
    if request.min_compute is not None and (slot.compute is None or slot.compute < request.min_compute):
        return Cause.COMPUTE
    least_mib = max(request.min_memory_mib or 0, grant_mib)
    if least_mib and (slot.memory_mib is None or slot.memory_mib < least_mib):
        return Cause.MEMORY
    unsuited = _means_cause(request, slot) or _power_cause(request, slot)
    if unsuited is not None:
        return unsuited
    if slot.blocked is not None and not accepts(request, slot):
        return Cause(slot.blocked.value.replace("_", " "))
    share_milli = share_milli_of(request, slot)
    if slot.open_milli < share_milli or (slot.taken_mib and (slot.memory_mib or 0) - slot.taken_mib < grant_mib):
        return Cause.IN_USE
    if slot.free_milli < share_milli:
        return Cause.ALLOCATED
    if serves_others(request, slot):
        return Cause.TENANT
    if grant_mib and (slot.free_mib is None or slot.free_mib < grant_mib):
        return Cause.FREE_MEMORY
    return None


def serves_others(request: Request, slot: Slot) -> bool:
    """Whether the slot's device serves only others now: one user's jobs, or packable jobs, which share with their
    like alone.
    """
    if request.whole:
        return False
    if request.pack is not None:
        return slot.tenant != request.pack and slot.free_milli < MILLI_PER_DEVICE
    return slot.tenant is not None and slot.tenant != request.tenant


def _means_cause(request: Request, slot: Slot) -> Cause | None:
    """The reason why the slot's way of sharing, or of reaching pods, does not suit the request; None if it does."""
    if request.offered_as is not None and slot.offered_as and request.offered_as not in slot.offered_as:
        return Cause.RESOURCE
    if (request.mig_profile is None) is not (slot.profile is None):
        return Cause.PROFILE if request.mig_profile is not None else Cause.MEANS
    if request.mig_profile is not None and slot.profile is not None:
        return None if profile_matches(request.mig_profile, slot.profile) else Cause.PROFILE
    part = not request.whole and request.pack is None
    if slot.means is Means.MIG or (part and (slot.means is Means.EXCLUSIVE or slot.replica)):
        return Cause.MEANS
    client = slot.means in (Means.MPS, Means.HOOK) and not request.whole and not _packs_nothing(request, slot)
    if client and not _may_be_client(request, slot):
        return Cause.MEANS
    alone = request.means is Means.EXCLUSIVE and request.whole and not slot.replica
    return None if request.means in (None, slot.means) or alone else Cause.MEANS


def _power_cause(request: Request, slot: Slot) -> Cause | None:
    """The reason why the slot's power limit does not suit the request, None if it does."""
    if request.power_limit_w is not None and not takes_power_limit(request, slot):
        return Cause.POWER_LIMIT
    within_mw = request.power_within_mw
    beyond = within_mw is not None and (slot.power_mw is None or slot.power_mw > within_mw)
    return Cause.POWER_BUDGET if beyond else None


def _may_be_client(request: Request, slot: Slot) -> bool:
    """Whether a part of the device can be a client of its MPS daemon, or under a hook.

    It must be on one device alone, not too small, and not more than one of the device's equal slots.
    """
    alone = request.devices == 1 and (request.split_milli or 0) <= MILLI_PER_DEVICE
    return alone and _may_have_clients(slot, share_milli_of(request, slot), grant_memory_mib(request, slot) or 0)


def _may_have_clients(slot: Slot, share_milli: int, memory_mib: int) -> bool:
    slots = slot.slots or 1
    in_slot = share_milli <= slot_milli(slots) and memory_mib <= (slot.memory_mib or memory_mib) // slots
    return share_milli >= LEAST_MPS_MILLI and (in_slot or slot.slots is None)


def _packs_nothing(request: Request, slot: Slot) -> bool:
    """Whether a packable job would have the device alone, because it cannot be shared, or not in such parts."""
    if request.pack is None or slot.means not in (Means.EXCLUSIVE, Means.MPS, Means.HOOK):
        return False
    return slot.means is Means.EXCLUSIVE or not _may_have_clients(slot, request.share_milli, request.memory_mib or 0)


def name_misfit(request: Request, name: str, labels: Labels) -> Misfit | None:
    """The reason why the request does not allow the node of this name, None if it does. States have no names."""
    if not request.allows_node(name):
        return Misfit(Cause.NODE_NAME, 1, 0, never=True)
    rules = request.rules
    if rules is not None and rules.by_name and not allows(rules, labels, name):
        return Misfit(Cause.NODE_AFFINITY, 1, 0, never=True)
    return None


def preference(request: Request, state: NodeState, name: str | None = None) -> int:
    """The request's preference for a node: 1 for each label in `prefers`, plus the weights of its rules."""
    liked = sum(label in state.labels for label in request.prefers) if request.prefers else 0
    if request.rules is None and not state.taints:
        return liked
    return liked + node_preference(request.rules, state.labels, state.taints, name)


def share_milli_of(request: Request, slot: Slot) -> int:
    """The milli-GPU of the slot that the request takes, if it is not split."""
    if _packs_nothing(request, slot):
        return MILLI_PER_DEVICE
    if not request.share_of_memory or not slot.memory_mib or request.memory_mib is None:
        return request.share_milli
    hundredths = request.memory_mib * 100 // slot.memory_mib
    return min(MILLI_PER_DEVICE, max(request.share_milli, hundredths * SHARE_QUANTUM_MILLI))


def grant_memory_mib(request: Request, slot: Slot, part_milli: int | None = None) -> int | None:
    """The MiB of the slot granted to the request: its own amount, else its share's part; None is the whole device."""
    if _packs_nothing(request, slot):
        return None
    if request.memory_mib is not None or request.whole or slot.memory_mib is None:
        return request.memory_mib
    if request.memory_percent is not None:
        return slot.memory_mib * request.memory_percent // 100
    return slot.memory_mib * (part_milli or request.share_milli) // MILLI_PER_DEVICE


def grants_on(
    request: Request, state: NodeState, slots: Sequence[int], uuids: Sequence[str], parts_milli: Sequence[int] = ()
) -> tuple[Grant, ...]:
    """The grants of a member that fits on these slots, whose devices are `uuids`; `parts_milli` if already decided."""
    chosen = [state.slots[index] for index in slots]
    parts: Sequence[int | None] = parts_milli or [None] * len(chosen)
    wanted_milli = request.split_milli
    if not parts_milli and wanted_milli is not None and (len(chosen) > 1 or wanted_milli > MILLI_PER_DEVICE):
        found = _split(request, wanted_milli, [_room_milli(_part_of(request), slot) for slot in chosen])
        assert not isinstance(found, NoRoom), "the request was said to fit on these slots"
        parts = found
    return tuple(_grant(request, *one) for one in zip(chosen, uuids, parts, strict=True))


def _grant(request: Request, slot: Slot, uuid: str, part_milli: int | None) -> Grant:
    share_milli = share_milli_of(request, slot) if part_milli is None else part_milli
    memory_mib = grant_memory_mib(request, slot, part_milli)
    if part_milli == MILLI_PER_DEVICE and request.split is Strategy.FILL and slot.free_mib is not None:
        # No other job can come to this device: it is granted with all its memory, whatever is asked for on the others.
        memory_mib = slot.free_mib
    tenant = request.tenant if slot.one_user and not request.whole else None
    tenant = tenant if request.pack is None else request.pack
    counts_milli = counted_milli(
        share_milli,
        memory_mib=memory_mib,
        device_mib=slot.memory_mib,
        cores_percent=request.cores_percent,
        slice_milli=slot.slice_milli,
    )
    return Grant(uuid, share_milli, memory_mib, tenant, None if counts_milli == share_milli else counts_milli)


def could_use(request: Request, slot: Slot, *, usable: bool = True) -> bool:
    """Whether the slot's device is of the kind that the request needs, even if it is held or used now.

    `usable` says whether the request may use this device at all (`Request.may_use`).
    """
    return usable and _slot_cause(request, slot, True) not in STATIC_CAUSES


def takes_power_limit(request: Request, slot: Slot) -> bool:
    """Whether the request's power limit can be set on the slot's device, which the request must then have whole."""
    if request.power_limit_w is None or not request.whole or slot.settable_power_mw is None:
        return False
    least_mw, most_mw = slot.settable_power_mw
    return least_mw <= request.power_limit_w * MW_PER_W <= most_mw


def accepts(request: Request, slot: Slot) -> bool:
    """Whether the request accepts a device in the state that keeps it from others.

    A single device of a job may be suspect. A gang, or a job with several devices, would lose all its work by one.
    """
    if slot.blocked is DeviceState.SUSPECT:
        return request.gang_size == 1 and request.devices == 1 and (request.split_milli or 0) <= MILLI_PER_DEVICE
    return strangers_accepted(request, slot)


def strangers_accepted(request: Request, slot: Slot) -> bool:
    """Whether the request accepts a device that processes outside Corral use, with the memory left on it."""
    if slot.blocked not in (DeviceState.IN_USE, DeviceState.STALE) or slot.left_mib is None:
        return False
    return request.accept_in_use is not None and slot.left_mib >= request.accept_in_use


def _slots_misfit(request: Request, causes: list[Cause], able: int) -> Misfit:
    counts = sorted(((causes.count(c), c) for c in Cause if c in causes), key=lambda pair: -pair[0])
    reachable = able + sum(n for n, c in counts if c not in STATIC_CAUSES)
    if reachable < request.devices:
        cause = next((c for _, c in counts if c in STATIC_CAUSES), Cause.NO_NODE)
        available = reachable
    else:
        cause = next(c for _, c in counts if c not in STATIC_CAUSES)
        available = able
    evictable = able + sum(n for n, c in counts if c in _EVICTABLE_CAUSES)
    return Misfit(
        cause,
        request.devices,
        available,
        devices=tuple((c, n) for n, c in counts),
        never=reachable < request.devices,
        eviction_helps=evictable >= request.devices,
    )


FitMemo = Callable[[Request, NodeState, tuple[int, ...] | None], Fit | Misfit]
"""`corral.core.model.placing.fit.fit`; the last argument holds the slots that the request may use."""


def fit_memo() -> FitMemo:
    """A fit test that caches its answers from cycle to cycle. Nodes in equal states share an answer."""
    return lru_cache(maxsize=50_000)(lambda request, state, usable: fit(request, state, usable=usable))
