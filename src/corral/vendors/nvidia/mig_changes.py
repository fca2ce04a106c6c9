"""Plans to create and destroy MIG slices, and the commands that carry a plan out."""

import re
import shlex
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from corral.core.model.answers.devices import SlicePlan
from corral.core.model.devices.device import Device
from corral.core.model.errors import Forbidden, Refused
from corral.core.model.units import count_of
from corral.core.ports.node import SliceChange
from corral.vendors.nvidia.tools import NVIDIA_SMI, run_tool

_OFFER = re.compile(r"^\|\s*\d+\s+MIG\s+(\S+)\s+(\d+)\s+(\d+)/(\d+)\s+([\d.]+)\s")
_INSTANCE = re.compile(r"^\|\s*\d+\s+MIG\s+(\S+)\s+(\d+)\s+(\d+)\s+(\d+):(\d+)\s*\|")


@dataclass(frozen=True, slots=True)
class MigOffer:
    """A profile into which a device can still be cut `free` times, or `total` times when it is empty."""

    profile: str
    profile_id: int
    free: int
    total: int


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A GPU instance with its number in nvidia-smi. `start` and `size` are memory slices."""

    profile: str
    instance_id: int
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class MigPlan:
    """Commands in the order in which they would run. Nothing has run yet."""

    device_uuid: str
    purpose: str
    commands: tuple[tuple[str, ...], ...]

    def lines(self) -> tuple[str, ...]:
        """The plan to show: its purpose, then each command as a shell line."""
        return (self.purpose, *(shlex.join(command) for command in self.commands))


def parse_offers(text: str) -> tuple[MigOffer, ...]:
    """The offers that `nvidia-smi mig -lgip -i UUID` prints, in its order; () if there are none."""
    rows = (_OFFER.match(line) for line in text.splitlines())
    return tuple(MigOffer(row[1], int(row[2]), int(row[3]), int(row[4])) for row in rows if row)


def parse_instances(text: str) -> tuple[MigInstance, ...]:
    """The instances that `nvidia-smi mig -lgi -i UUID` prints, in its order; () if there are none."""
    rows = (_INSTANCE.match(line) for line in text.splitlines())
    return tuple(MigInstance(row[1], int(row[3]), int(row[4]), int(row[5])) for row in rows if row)


def plan_create(device: Device, profile: str, count: int, offers: Sequence[MigOffer]) -> MigPlan:
    """The plan to create `count` more slices of `profile`. Raises Refused, with what would be possible."""
    if not device.mig_enabled:
        raise Refused(
            f"--mig: {device.uuid} is not in MIG mode; when it is idle, an administrator turns it on "
            f"with nvidia-smi -i {device.uuid} -mig 1",
            field="--mig",
        )
    offer = next((offer for offer in offers if offer.profile.lower() == profile.lower()), None)
    if offer is None:
        names = ", ".join(offer.profile for offer in offers) or "none"
        raise Refused(f"--mig: {device.model} cannot be cut into {profile}; it offers {names}", field="--mig")
    if offer.free < count:
        raise Refused(
            f"--mig: {device.uuid} has room for {offer.free} more of {profile} and {count} were asked for; "
            "wait for slices to come free, or give up idle ones",
            field="--mig",
        )
    ids = ",".join([str(offer.profile_id)] * count)
    return MigPlan(
        device.uuid,
        f"cut {device.uuid} into {count_of(count, 'more slice')} of {offer.profile}",
        (("nvidia-smi", "mig", "-i", device.uuid, "-cgi", ids, "-C"),),
    )


def plan_destroy(device: Device, instances: Sequence[MigInstance], busy: Collection[int]) -> MigPlan:
    """The plan to destroy these slices of a device. `busy` are the ids of instances that are allocated to jobs.

    Raises Refused if one of them is in use: a slice is never taken from a job.
    """
    in_use = [instance for instance in instances if instance.instance_id in busy]
    if in_use:
        names = ", ".join(f"{instance.instance_id} ({instance.profile})" for instance in in_use)
        raise Refused(
            f"--mig: jobs still use slice {names} of {device.uuid}; wait for them to end, or cancel them", field="--mig"
        )
    commands = []
    for instance in sorted(instances, key=lambda instance: instance.instance_id):
        which = ("-i", device.uuid, "-gi", str(instance.instance_id))
        commands += [("nvidia-smi", "mig", "-dci", *which), ("nvidia-smi", "mig", "-dgi", *which)]
    return MigPlan(device.uuid, f"give up {count_of(len(instances), 'idle slice')} of {device.uuid}", tuple(commands))


def carry_out(plan: MigPlan, *, allowed: bool, run: Callable[[tuple[str, ...]], str]) -> None:
    """Carry out the plan and stop at the first command that fails. `run` takes the arguments of nvidia-smi.

    Raises Forbidden unless the administrator allows it (`allowed`), and BackendFailed if a command fails.
    """
    if not allowed:
        raise Forbidden(
            f"this site does not let jobs change MIG slices; an administrator may run: {'; '.join(plan.lines()[1:])}"
        )
    for command in plan.commands:
        run(tuple(command[1:]))


_TOOL_TIMEOUT_S = 60.0


def change_slices(device: Device, change: SliceChange, allowed: bool) -> SlicePlan:
    """Return the plan for a change of slices. It is carried out if the change asks for that and it is `allowed`.

    Raises Refused, Forbidden, BackendFailed.
    """
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
    return run_tool([NVIDIA_SMI, *arguments], timeout_s=_TOOL_TIMEOUT_S)
