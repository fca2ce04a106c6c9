"""What jobs hold, as quotas and fair shares count it: once placed what they are granted, before that the least."""

from collections.abc import Iterable

from corral.model.allocation import Placement
from corral.model.device import Device
from corral.model.fact import Delta, NodeGone, NodeObserved
from corral.model.fit import Slot, could_use, grant_memory_mib, share_milli_of, slot_of
from corral.model.job import Job, JobKind, JobSpec, Request
from corral.model.quota import Held, counted_milli
from corral.model.units import MILLI_PER_DEVICE
from corral.scheduling.queueing.order import asked_gpus
from corral.scheduling.state.capacity import Capacity

REQUESTS_REMEMBERED = 4096


def least_held(request: Request, devices: Iterable[Device]) -> Held:
    """The least that the request can come to on any of the devices that could serve it, all members together."""
    if not request.devices:
        return Held()
    named = request.device_uuids
    slots = {slot_of(one, None, 0, 0): None for one in devices if not named or one.uuid in named}
    able = [slot for slot in slots if could_use(request, slot)]
    members = request.gang_size
    milli = min((_least_milli(request, slot) for slot in able), default=request.total_milli // members)
    memory_mib = min((_least_mib(request, slot) for slot in able), default=request.devices * (request.memory_mib or 0))
    return Held(0, members * _least_devices(request), members * milli, members * memory_mib)


def _least_devices(request: Request) -> int:
    """Devices of one member: a share that may be split takes at least so many."""
    return request.devices if request.split_milli is None else -(-request.split_milli // MILLI_PER_DEVICE)


def _least_milli(request: Request, slot: Slot) -> int:
    """What one member counts as on such devices; of a split share it is not known yet how it is divided."""
    split_milli = request.split_milli
    by_name = request.memory_mib is not None or request.memory_percent is not None
    each_milli = counted_milli(
        share_milli_of(request, slot) if split_milli is None else 0,
        memory_mib=grant_memory_mib(request, slot) if split_milli is None or by_name else None,
        device_mib=slot.memory_mib,
        cores_percent=request.cores_percent,
        slice_milli=slot.slice_milli,
    )
    return max(split_milli or 0, _least_devices(request) * each_milli)


def _least_mib(request: Request, slot: Slot) -> int:
    """The memory that one member is granted on such devices: of one that it has whole all there is."""
    if request.split_milli is not None and request.memory_mib is None and request.memory_percent is None:
        return (slot.memory_mib or 0) * request.split_milli // MILLI_PER_DEVICE
    return _least_devices(request) * (grant_memory_mib(request, slot) or slot.memory_mib or 0)


class Demands:
    """What jobs hold on the devices that a capacity has. Follows the same deltas as that."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._kinds: list[Device] | None = None
        self._least: dict[Request, Held] = {}
        self._last: tuple[JobSpec, Placement, Held] | None = None

    def follow(self, delta: Delta) -> None:
        """Take in one delta that the capacity has already taken in."""
        if isinstance(delta, NodeObserved | NodeGone):
            self._kinds = None
            self._least.clear()
            self._last = None

    def least(self, job: Job) -> Held:
        """The least that the job will hold once it runs."""
        request = job.spec.request
        found = self._least.get(request)
        if found is None:
            if len(self._least) >= REQUESTS_REMEMBERED:
                self._least.clear()
            found = self._least[request] = least_held(request, self._devices_for(request))._replace(running=1)
        return found if job.spec.kind is JobKind.RUN else found._replace(running=0)

    def of(self, job: Job, placement: Placement) -> Held:
        """What the job holds there."""
        last = self._last
        # A start is asked about three times in a row: may it, it does, and it is on record.
        if last is not None and last[0] is job.spec and last[1] is placement:
            return last[2]
        grants = placement.grants
        memory_mib = sum(self._whole_mib(g.uuid) if g.memory_mib is None else g.memory_mib for g in grants)
        running = 1 if job.spec.kind is JobKind.RUN else 0
        held = Held(running, len(grants), sum(grant.counted_milli for grant in grants), memory_mib)
        self._last = job.spec, placement, held
        return held

    def gpus(self, job: Job) -> float:
        """GPUs that the job counts as at least; a job without any counts its CPUs."""
        request = job.spec.request
        if not request.devices:
            return asked_gpus(job)
        # Of ten thousand jobs that are ranked in a cycle most ask for whole devices: nothing else is looked at.
        if request.share_milli == MILLI_PER_DEVICE and request.split_milli is None and request.mig_profile is None:
            return request.gang_size * request.devices
        return self.least(job).milli / MILLI_PER_DEVICE

    def _whole_mib(self, uuid: str) -> int:
        place = self._capacity.slot(uuid)
        return 0 if place is None else self._capacity.device(*place).memory_mib or 0

    def _devices_for(self, request: Request) -> list[Device]:
        """The devices that the request names, else one of each kind that there is."""
        if request.device_uuids:
            places = (self._capacity.slot(uuid) for uuid in request.device_uuids)
            return [self._capacity.device(*place) for place in places if place is not None]
        if self._kinds is None:
            nodes = (self._capacity.node(name) for name in self._capacity.names)
            self._kinds = list({slot_of(one, None, 0, 0): one for node in nodes for one in node.devices}.values())
        return self._kinds
