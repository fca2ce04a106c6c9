"""The site's power budget: the power limits of all devices with jobs may add up to so much, and no more.

A device counts once, however many jobs share it: with the limit that its job has set, else with its own. Devices
without jobs count nothing.
"""

from collections.abc import Callable
from typing import NamedTuple

from corral.core.model.devices.device import Device
from corral.core.model.jobs.job import Job, Request
from corral.core.model.placing.allocation import Placement
from corral.core.model.units import MW_PER_W
from corral.core.model.view import View

CountedDevice = Callable[[str], tuple[str, int | None]]
"""Returns the device that counts for a device or a slice, by UUID, and its power limit in mW; None if unknown."""

LimitsFor = Callable[[Request], tuple[int | None, ...]]
"""Returns the different power limits in mW of the devices that could serve a request; None is an unknown limit."""


class OverBudget(NamedTuple):
    """The reason why a job does not fit into the power budget, and by how many mW; None if no end of a job helps."""

    detail: str
    excess_mw: int | None


class PowerBudget:
    """The budget with the devices that count in it. `count` changes them, and `copy` keeps a copy from changes."""

    def __init__(self, budget_w: int, counted_device: CountedDevice, limits_for: LimitsFor) -> None:
        self.budget_w = budget_w
        self.used_mw = 0
        self._counted_device = counted_device
        self._limits_for = limits_for
        self._jobs: dict[str, int] = {}
        self._counted: dict[str, int] = {}

    def copy(self) -> "PowerBudget":
        """A budget in which the same devices count."""
        other = PowerBudget(self.budget_w, self._counted_device, self._limits_for)
        other.used_mw, other._jobs, other._counted = self.used_mw, dict(self._jobs), dict(self._counted)
        return other

    def count(self, job: Job, placement: Placement, sign: int = 1) -> None:
        """Count the devices of a job from now on, or with `sign` -1 no longer. An unknown limit counts nothing."""
        for uuid, limit_mw in self._devices(job, placement).items():
            jobs = self._jobs.get(uuid, 0) + sign
            if jobs == 0:
                self.used_mw -= self._counted.pop(uuid, 0)
                self._jobs.pop(uuid, None)
                continue
            self._jobs[uuid] = jobs
            if uuid not in self._counted:
                self._counted[uuid] = limit_mw or 0
                self.used_mw += self._counted[uuid]

    def released_mw(self, job: Job, placement: Placement) -> int:
        """The part of the budget that the end of a job releases: of a shared device, an equal part for each job."""
        return sum(
            (limit_mw or 0) // self._jobs.get(uuid, 1) for uuid, limit_mw in self._devices(job, placement).items()
        )

    def barrier(self, request: Request) -> OverBudget | None:
        """The reason why such a job cannot start on any devices now; None if the budget bars it from some at most."""
        least_mw = self.least_mw(request)
        return None if least_mw is None else self._over(least_mw)

    def exceeded(self, job: Job, placement: Placement) -> OverBudget | None:
        """The reason why the job cannot start on the devices of this placement; None if it can."""
        devices = self._devices(job, placement)
        limits = [limit_mw for uuid, limit_mw in devices.items() if uuid not in self._jobs]
        if None in limits:
            return OverBudget("a GPU has no known power limit, and the site's power budget counts it", None)
        return self._over(sum(limit or 0 for limit in limits))

    def within(self, request: Request) -> int | None:
        """The greatest power limit in mW that each device of the request may have; None if all that could serve it may.

        Only a request for whole devices is restricted: a part may be on a device that counts already.
        """
        if not _alone(request) or request.power_limit_w is not None:
            return None
        room_mw = self.budget_w * MW_PER_W - self.used_mw
        limits = self._limits_for(request)
        each_mw = max(0, room_mw) // (request.gang_size * request.devices)
        allowed = [limit for limit in limits if limit is not None and limit <= each_mw]
        # A limit that some device has, so that requests in slightly different budgets are equal.
        return None if len(allowed) == len(limits) else max(allowed, default=0)

    def least_mw(self, request: Request) -> int | None:
        """The least that the request adds to the budget. None if no limit is known, 0 if it may share a device."""
        if not _alone(request):
            return 0
        count = request.gang_size * request.devices
        if request.power_limit_w is not None:
            return count * request.power_limit_w * MW_PER_W
        known = [limit for limit in self._limits_for(request) if limit is not None]
        return count * min(known) if known else None

    def _devices(self, job: Job, placement: Placement) -> dict[str, int | None]:
        """The devices that count for a job there, each with its power limit in mW while the job has it."""
        own_w = job.spec.request.power_limit_w
        devices = dict(map(self._counted_device, placement.uuids))
        return devices if own_w is None else dict.fromkeys(devices, own_w * MW_PER_W)

    def _over(self, more_mw: int) -> OverBudget | None:
        budget_mw = self.budget_w * MW_PER_W
        excess_mw = self.used_mw + more_mw - budget_mw
        if more_mw == 0 or excess_mw <= 0:
            return None
        detail = (
            f"the power limits of GPUs with jobs add up to {_watts(self.used_mw)} of the site's power budget of "
            f"{self.budget_w} W, and this job's GPUs add {_watts(more_mw)}"
        )
        return OverBudget(detail, None if more_mw > budget_mw else excess_mw)


def powered_device(uuid: str, device_of: Callable[[str], Device | None]) -> tuple[str, int | None]:
    """The device whose power limit holds for a device or a slice, and that limit in mW; None if it is unknown."""
    device = device_of(uuid)
    if device is not None and device.parent_uuid is not None:
        uuid, device = device.parent_uuid, device_of(device.parent_uuid)
    return uuid, None if device is None else device.power_limit_mw


def counted_power_mw(view: View, budget_w: int) -> int:
    """The part of a site's power budget that counts for the jobs of a view."""
    devices = {device.uuid: device for node in view.nodes.values() for device in node.devices}
    budget = PowerBudget(budget_w, lambda uuid: powered_device(uuid, devices.get), lambda _: ())
    for allocation in view.allocations.values():
        if (job := view.jobs.get(allocation.job_id)) is not None:
            budget.count(job, allocation.placement)
    return budget.used_mw


def _alone(request: Request) -> bool:
    """Whether the request is for devices that no other job can share."""
    return request.devices > 0 and request.whole and request.mig_profile is None


def _watts(milliwatts: int) -> str:
    return f"{milliwatts / MW_PER_W:.0f} W"
