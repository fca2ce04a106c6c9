"""The use of jobs in quotas and fair shares: once placed, the amounts granted; before that, the possible minimum."""

from collections.abc import Iterable

from corral.core.model.devices.device import Device
from corral.core.model.fact import Delta, NodeObserved, NodeRemoved
from corral.core.model.jobs.job import Job, JobKind, JobSpec, Request
from corral.core.model.placing.allocation import Placement
from corral.core.model.placing.fit import could_use, grant_memory_mib, share_milli_of
from corral.core.model.placing.state import Slot, slot_of
from corral.core.model.queues.quota import Used, counted_milli
from corral.core.model.units import MILLI_PER_DEVICE
from corral.core.scheduling.queueing.order import asked_gpus
from corral.core.scheduling.queueing.power_budget import powered_device
from corral.core.scheduling.state.capacity import Capacity
from corral.core.scheduling.state.packed_request import request_of

REQUESTS_REMEMBERED = 4096


def least_use(request: Request, devices: Iterable[Device]) -> Used:
    """The minimum use of the request on any device that could serve it, summed over all members."""
    if not request.devices:
        return Used()
    named = request.device_uuids
    slots = {slot_of(one, None, 0, 0): None for one in devices if not named or one.uuid in named}
    able = [slot for slot in slots if could_use(request, slot)]
    members = request.gang_size
    milli = min((_least_milli(request, slot) for slot in able), default=request.total_milli // members)
    memory_mib = min((_least_mib(request, slot) for slot in able), default=request.devices * (request.memory_mib or 0))
    return Used(0, members * _least_devices(request), members * milli, members * memory_mib)


def power_limits(request: Request, devices: Iterable[Device]) -> tuple[int | None, ...]:
    """The different power limits in mW of the devices that could serve the request; None is an unknown limit."""
    named = request.device_uuids
    slots = (slot_of(one, None, 0, 0) for one in devices if not named or one.uuid in named)
    return tuple(dict.fromkeys(slot.power_mw for slot in slots if could_use(request, slot)))


def _least_devices(request: Request) -> int:
    """The devices of one member. For a share that may be split, the fewest devices that it can take."""
    return request.devices if request.split_milli is None else -(-request.split_milli // MILLI_PER_DEVICE)


def _least_milli(request: Request, slot: Slot) -> int:
    """The minimum milli-GPU that one member uses on such a device; the division of a split share is not known yet."""
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
    """The MiB that one member is granted on such devices, which is all memory of a device that it has whole."""
    if request.split_milli is not None and request.memory_mib is None and request.memory_percent is None:
        return (slot.memory_mib or 0) * request.split_milli // MILLI_PER_DEVICE
    return _least_devices(request) * (grant_memory_mib(request, slot) or slot.memory_mib or 0)


class Demands:
    """The use of jobs on the devices of a capacity. It receives the same deltas as the capacity."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._kinds: list[Device] | None = None
        self._least: dict[Request, Used] = {}
        self._power: dict[Request, tuple[int | None, ...]] = {}
        self._last: tuple[JobSpec, Placement, Used] | None = None

    def follow(self, delta: Delta) -> None:
        """Apply one delta that the capacity has already applied."""
        if isinstance(delta, (NodeObserved, NodeRemoved)):
            self._kinds = None
            self._least.clear()
            self._power.clear()
            self._last = None

    def least(self, job: Job) -> Used:
        """The minimum use of the job once it runs."""
        request = self.request(job)
        found = self._least.get(request)
        if found is None:
            if len(self._least) >= REQUESTS_REMEMBERED:
                self._least.clear()
            found = self._least[request] = least_use(request, self._devices_for(request))._replace(running=1)
        return found if job.spec.kind is JobKind.RUN else found._replace(running=0)

    def request(self, job: Job) -> Request:
        """The request by which the job is placed."""
        return request_of(self._capacity.view, job)

    def power_limits_mw(self, request: Request) -> tuple[int | None, ...]:
        """The different power limits of the devices that could serve the request, as `power_limits` finds them."""
        found = self._power.get(request)
        if found is None:
            if len(self._power) >= REQUESTS_REMEMBERED:
                self._power.clear()
            found = self._power[request] = power_limits(request, self._devices_for(request))
        return found

    def powered_device(self, uuid: str) -> tuple[str, int | None]:
        """The device whose power limit holds for a device or a slice, and that limit in mW; None if it is unknown."""
        return powered_device(uuid, self._device)

    def _device(self, uuid: str) -> Device | None:
        place = self._capacity.slot(uuid)
        return None if place is None else self._device_at(place)

    def device_mib(self) -> int:
        """The minimum memory that a whole device counts as, in MiB."""
        whole = Request()
        return least_use(whole, self._devices_for(whole)).memory_mib

    def of(self, job: Job, placement: Placement) -> Used:
        """The use of the job with this placement."""
        last = self._last
        # Each start asks three times in a row: when it is checked, started, and recorded.
        if last is not None and last[0] is job.spec and last[1] is placement:
            return last[2]
        grants = placement.grants
        memory_mib = sum(self._whole_mib(g.uuid) if g.memory_mib is None else g.memory_mib for g in grants)
        running = 1 if job.spec.kind is JobKind.RUN else 0
        used = Used(running, len(grants), sum(grant.counted_milli for grant in grants), memory_mib)
        self._last = job.spec, placement, used
        return used

    def gpus(self, job: Job) -> float:
        """The GPUs that the job counts as, at least; for a job without GPUs, its number of CPUs."""
        request = job.spec.request
        if not request.devices:
            return asked_gpus(job)
        if job.spec.packable:
            return float(request.devices)  # The part that it gets changes while it waits, and ranks stay.
        # A fast path for whole devices: a cycle may rank ten thousand jobs, and most ask for whole devices.
        if request.share_milli == MILLI_PER_DEVICE and request.split_milli is None and request.mig_profile is None:
            return request.gang_size * request.devices
        return self.least(job).milli / MILLI_PER_DEVICE

    def _whole_mib(self, uuid: str) -> int:
        device = self._device(uuid)
        return 0 if device is None else device.memory_mib or 0

    def _device_at(self, place: tuple[str, int]) -> Device:
        name, slot = place
        return self._capacity.node(name).devices[slot]

    def _devices_for(self, request: Request) -> list[Device]:
        """The devices that the request names; if it names none, one device of each kind in the cluster."""
        if request.device_uuids:
            places = (self._capacity.slot(uuid) for uuid in request.device_uuids)
            return [self._device_at(place) for place in places if place is not None]
        if self._kinds is None:
            nodes = (self._capacity.node(name) for name in self._capacity.names)
            self._kinds = list({slot_of(one, None, 0, 0): one for node in nodes for one in node.devices}.values())
        return self._kinds
