"""What is asked of devices: whole ones, a part, memory, cores, a hardware slice; and what that comes to on a device."""

from collections.abc import Iterable
from dataclasses import dataclass

from corral.model.allocation import Grant
from corral.model.device import Device
from corral.model.errors import Refused, nearest
from corral.model.means import Means
from corral.model.units import (
    MILLI_PER_DEVICE,
    SHARE_QUANTUM_MILLI,
    count_of,
    format_memory,
    parse_amount,
    parse_memory_mib,
    parse_share_milli,
)
from corral.sharing.mig import profile_matches


@dataclass(frozen=True, slots=True)
class Ask:
    """What a job wants of devices, before any device is known. Either `devices` or `total_milli` is set.

    Attributes:
        devices: so many devices, `share_milli` of each; 0 is a CPU job. With `profile`, so many instances.
        share_milli: of each device; 1000 is the whole, None the part of it that the memory comes to.
        total_milli: a share that one device gives, or several together where none has the room.
        memory_mib, memory_percent: granted on each device, at most one of them; None is the share's part.
        cores_percent: compute granted on each device; None is the share's part.
        profile: of a MIG instance.
        means: how the device must be shared; None is as the device is configured.
        notes: what was rounded or left out, for the user.
    """

    devices: int | None = None
    share_milli: int | None = None
    total_milli: int | None = None
    memory_mib: int | None = None
    memory_percent: int | None = None
    cores_percent: int | None = None
    profile: str | None = None
    means: Means | None = None
    notes: tuple[str, ...] = ()


def ask(
    *,
    gpus: str | None = None,
    memory: str | None = None,
    cores: str | None = None,
    profile: str | None = None,
    share: str | None = None,
) -> Ask:
    """The values of `--gpus`, `--gpu-mem`, `--gpu-cores`, `--mig` and `--share`, each None when it was not given.

    Raises Refused, naming the flag, for values that are none, and for flags that contradict each other.
    """
    means = None if share is None else _means(share)
    if profile is not None:
        return _instances(gpus, memory, cores, profile, means)
    if means is Means.MIG:
        raise Refused("--share mig: say which slice with --mig, for example --mig 1g.10gb", field="--share")
    memory_mib = None if memory is None else parse_memory_mib(memory, field="--gpu-mem")
    cores_percent = None if cores is None else _percent(cores)
    total_milli = None if gpus is None else parse_share_milli(gpus)
    whole = total_milli is not None and total_milli % MILLI_PER_DEVICE == 0
    if whole or (total_milli is None and memory_mib is None and cores_percent is None):
        _refuse_limits_on_whole(memory, cores)
        devices = 1 if total_milli is None else total_milli // MILLI_PER_DEVICE
        return Ask(devices=devices, share_milli=MILLI_PER_DEVICE, means=means)
    if means is Means.EXCLUSIVE:
        raise Refused(
            "--share exclusive: an exclusive device is given whole; ask for --gpus 1 or more", field="--share"
        )
    if total_milli is None:
        share_milli = None if cores_percent is None else cores_percent * MILLI_PER_DEVICE // 100
        return Ask(1, share_milli, memory_mib=memory_mib, cores_percent=cores_percent, means=means)
    if means is Means.MPS and total_milli > MILLI_PER_DEVICE:
        raise Refused(
            f"--share mps: {gpus} GPUs need more than one device, and a share on MPS is of one; "
            "ask for --gpus 1 or less, or for whole devices",
            field="--share",
        )
    return Ask(total_milli=total_milli, memory_mib=memory_mib, cores_percent=cores_percent, means=means)


def _means(text: str) -> Means:
    try:
        return Means(text)
    except ValueError:
        hint = nearest(text, [means.value for means in Means])
        raise Refused(f"--share: no such way to share a device: {text!r}; {hint}", field="--share") from None


def _percent(text: str) -> int:
    amount = parse_amount(text, field="--gpu-cores")
    if amount > 100 or amount.denominator != 1:
        raise Refused(f"--gpu-cores: {text} is not a percentage; ask for 1 to 100", field="--gpu-cores")
    return int(amount)


def _instances(gpus: str | None, memory: str | None, cores: str | None, profile: str, means: Means | None) -> Ask:
    if means not in (None, Means.MIG):
        raise Refused(
            f"--share {means}: a MIG slice is shared in hardware; leave out --share or --mig", field="--share"
        )
    for flag, value in (("--gpu-mem", memory), ("--gpu-cores", cores)):
        if value is not None:
            raise Refused(f"{flag}: the profile {profile} fixes memory and cores; leave {flag} out", field=flag)
    total_milli = MILLI_PER_DEVICE if gpus is None else parse_share_milli(gpus)
    if total_milli == 0 or total_milli % MILLI_PER_DEVICE:
        raise Refused(f"--gpus: with --mig it counts slices, and {gpus} is no count; ask for 1 or more", field="--gpus")
    return Ask(total_milli // MILLI_PER_DEVICE, MILLI_PER_DEVICE, profile=profile, means=Means.MIG)


def _refuse_limits_on_whole(memory: str | None, cores: str | None) -> None:
    for flag, value, instead in (
        ("--gpu-mem", memory, "to filter devices by their memory use --min-memory"),
        ("--gpu-cores", cores, "to share a device ask for a fraction such as --gpus 0.5"),
    ):
        if value is not None:
            raise Refused(f"{flag} {value}: a whole GPU is granted with all it has; {instead}", field=flag)


def grant_on(wanted: Ask, device: Device, part_milli: int | None = None) -> Grant:
    """What the ask comes to on a device, everything rounded down; `part_milli` is what a split takes of it.

    Memory of the grant is None only when the device's own is not known and none was asked for by size.
    Raises Refused when the share or the memory cannot be told, or is more than the device has.
    """
    memory_mib = wanted.memory_mib
    if wanted.memory_percent is not None and device.memory_mib is not None:
        memory_mib = device.memory_mib * wanted.memory_percent // 100
    share_milli = wanted.share_milli if part_milli is None else part_milli
    if device.memory_mib is None:
        if share_milli is None or wanted.memory_percent is not None:
            raise Refused(f"{device.uuid} does not say how much memory it has, so a part of it cannot be granted")
        return Grant(device.uuid, share_milli, memory_mib)
    if memory_mib is not None and memory_mib > device.memory_mib:
        raise Refused(
            f"{format_memory(memory_mib)} is more than {device.model} has; "
            f"the most that can be granted on it is {format_memory(device.memory_mib)}"
        )
    if share_milli is None:
        hundredths = (memory_mib or 0) * 100 // device.memory_mib
        share_milli = max(SHARE_QUANTUM_MILLI, hundredths * SHARE_QUANTUM_MILLI)
    if memory_mib is None:
        memory_mib = device.memory_mib * share_milli // MILLI_PER_DEVICE
    return Grant(device.uuid, share_milli, memory_mib)


def refuse_unservable(wanted: Ask, devices: Iterable[Device]) -> None:
    """Raise Refused when no device here could ever serve the ask: its memory, or its MIG profile."""
    here = list(devices)
    known = [device.memory_mib for device in here if device.memory_mib is not None]
    if wanted.memory_mib is not None and known and max(known) < wanted.memory_mib:
        raise Refused(
            f"memory: {format_memory(wanted.memory_mib)} is more than any device has; "
            f"the most that can be asked for is {format_memory(max(known))}",
            field="memory",
        )
    if wanted.profile is None:
        return
    profiles = [partition.profile for device in here for partition in device.partitions]
    matching = sum(1 for profile in profiles if profile_matches(wanted.profile, profile))
    if matching == 0:
        offered = ", ".join(sorted(set(profiles)))
        what = f"they offer {offered}" if offered else "no device is sliced"
        raise Refused(f"--mig: no device has a slice {wanted.profile}; {what}", field="--mig")
    if (wanted.devices or 1) > matching:
        raise Refused(
            f"--mig: {wanted.devices} x {wanted.profile} is more than there are: {count_of(matching, 'slice')}",
            field="--mig",
        )
