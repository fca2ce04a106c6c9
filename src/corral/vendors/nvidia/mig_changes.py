"""Plans changes of a device's MIG slices, and carries them out with `nvidia-smi`."""

from corral.core.model.answers.devices import SlicePlan
from corral.core.model.devices.device import Device
from corral.core.model.errors import Refused
from corral.core.ports.node import SliceChange
from corral.vendors.nvidia.mig_plan import (
    MigInstance,
    MigPlan,
    carry_out,
    parse_instances,
    parse_offers,
    plan_create,
    plan_destroy,
)
from corral.vendors.nvidia.tools import NVIDIA_SMI, run_tool

TOOL_TIMEOUT_S = 60.0


def change_slices(device: Device, change: SliceChange, allowed: bool) -> SlicePlan:
    """The plan, carried out if the change asks for it and it is `allowed`. Raises Refused, Forbidden, BackendFailed."""
    plan = _cut(device, change.profile, change.count) if change.profile is not None else _give_up(device, change.in_use)
    if change.apply:
        carry_out(plan, allowed=allowed, run=_nvidia_smi)
    purpose, *commands = plan.lines()
    return SlicePlan(plan.device_uuid, purpose, tuple(commands), applied=change.apply)


def _cut(device: Device, profile: str, count: int) -> MigPlan:
    offers = parse_offers(_nvidia_smi(("mig", "-lgip", "-i", device.uuid))) if device.mig_enabled else ()
    return plan_create(device, profile, count, offers)


def _give_up(device: Device, in_use: bool) -> MigPlan:
    instances: tuple[MigInstance, ...] = ()
    if device.mig_enabled:
        instances = parse_instances(_nvidia_smi(("mig", "-lgi", "-i", device.uuid)))
    if not instances:
        raise Refused(f"--mig: {device.uuid} has no slices to give up", field="device")
    # The UUID of an instance is not known: one slice in use therefore keeps all of them.
    busy = [instance.instance_id for instance in instances] if in_use else []
    return plan_destroy(device, instances, busy)


def _nvidia_smi(arguments: tuple[str, ...]) -> str:
    return run_tool([NVIDIA_SMI, *arguments], timeout_s=TOOL_TIMEOUT_S)
