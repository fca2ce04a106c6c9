"""Parse a request for devices: whole devices, a part, memory, cores, or a hardware slice. Make a `Request` of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from corral.core.model.devices.means import Means
from corral.core.model.errors import Refused, nearest
from corral.core.model.jobs.job import Request
from corral.core.model.units import (
    MILLI_PER_DEVICE,
    SHARE_QUANTUM_MILLI,
    parse_amount,
    parse_memory_mib,
    parse_share_milli,
)


@dataclass(frozen=True, slots=True)
class Ask:
    """A job's demand for devices, before any device is known. Either `devices` or `total_milli` is set.

    Attributes:
        devices: the number of devices, with `share_milli` of each; 0 is a CPU job. With `profile`, the number of
            instances.
        share_milli: the share of each device. 1000 is the whole; None is computed from the memory on the device.
        total_milli: a share from one device, or from several together if no device has enough.
        memory_mib, memory_percent: memory granted on each device, at most one of them set; None follows the share.
        cores_percent: compute granted on each device; None follows the share.
        profile: the profile of a MIG instance.
        means: how the device must be shared; None is the device's configuration.
        cpu_milli, host_memory_mib: of the host; 0 asks for no amount.
        notes: for the user: what was rounded or left out.
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
    cpu_milli: int = 0
    host_memory_mib: int = 0

    def request(self, conditions: Request) -> Request:
        """The request for this demand, with the conditions of another request (models, host, gang, and others)."""
        asked = replace(
            conditions,
            memory_mib=self.memory_mib,
            memory_percent=self.memory_percent,
            cores_percent=self.cores_percent,
            mig_profile=self.profile,
            means=self.means,
            cpu_milli=self.cpu_milli or conditions.cpu_milli,
            host_memory_mib=self.host_memory_mib or conditions.host_memory_mib,
        )
        if self.total_milli is not None:
            most = min(self.total_milli, MILLI_PER_DEVICE)
            return replace(asked, devices=1, share_milli=most, split_milli=self.total_milli)
        devices = 1 if self.devices is None else self.devices
        if self.share_milli is None:
            return replace(asked, devices=devices, share_milli=SHARE_QUANTUM_MILLI, share_of_memory=True)
        return replace(asked, devices=devices, share_milli=self.share_milli)


HOST_RESOURCES = ("cpu", "mem", "memory")
"""The names of Backend.ai and Kubernetes for CPUs and host memory. All their other names are of devices."""


def host_amounts(resources: Mapping[str, str]) -> tuple[int, int]:
    """The thousandths of a CPU and the MiB of host memory that these named resources ask for, each 0 if not named.

    "2", "0.5" and "500m" are amounts of `cpu`; "4g" and "4Gi" of `mem` or `memory`. Raises Refused for other texts.
    """
    cpu_milli = host_memory_mib = 0
    if "cpu" in resources:
        text = resources["cpu"].strip()
        number = parse_amount(text.removesuffix("m"), field="cpu")
        cpu_milli = max(1, int(number if text.endswith("m") else 1000 * number))
    if "mem" in resources and "memory" in resources:
        raise Refused("mem and memory both set the host memory; remove one of them", field="memory")
    for name in ("mem", "memory"):
        if name in resources:
            host_memory_mib = parse_memory_mib(resources[name], field=name)
    return cpu_milli, host_memory_mib


def ask(
    *,
    gpus: str | None = None,
    memory: str | None = None,
    cores: str | None = None,
    profile: str | None = None,
    share: str | None = None,
) -> Ask:
    """The demand that `--gpus`, `--gpu-mem`, `--gpu-cores`, `--mig` and `--share` express. Each is None if not given.

    Raises Refused, with the name of the flag, for invalid values and for flags that contradict each other.
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
    if total_milli is None and cores_percent == 100:
        _refuse_limits_on_whole(memory, None)
    if whole or (total_milli is None and memory_mib is None and cores_percent is None):
        _refuse_limits_on_whole(memory, cores, of_none=total_milli == 0)
        devices = 1 if total_milli is None else total_milli // MILLI_PER_DEVICE
        return Ask(devices=devices, share_milli=MILLI_PER_DEVICE, means=means)
    if means is Means.EXCLUSIVE:
        raise Refused(
            "--share exclusive: an exclusive GPU is allocated whole; ask for --gpus 1 or more", field="--share"
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
        raise Refused(f"--share: {text!r} is not a way to share a GPU; {hint}", field="--share") from None


def _percent(text: str) -> int:
    amount = parse_amount(text, field="--gpu-cores")
    if amount > 100 or amount.denominator != 1:
        raise Refused(f"--gpu-cores: {text} is not a percentage; ask for 1 to 100", field="--gpu-cores")
    return int(amount)


def _instances(gpus: str | None, memory: str | None, cores: str | None, profile: str, means: Means | None) -> Ask:
    if means not in (None, Means.MIG):
        raise Refused(f"--share {means}: a MIG slice is shared in hardware; remove --share or --mig", field="--share")
    for flag, value in (("--gpu-mem", memory), ("--gpu-cores", cores)):
        if value is not None:
            raise Refused(f"{flag}: the profile {profile} fixes memory and compute; remove {flag}", field=flag)
    if not profile.strip():
        raise Refused("--mig: the profile is missing; write one such as 1g.10gb", field="--mig")
    total_milli = MILLI_PER_DEVICE if gpus is None else parse_share_milli(gpus)
    if total_milli == 0 or total_milli % MILLI_PER_DEVICE:
        raise Refused(
            f"--gpus: with --mig it counts slices, and {gpus} is not a number of slices; ask for 1 or more",
            field="--gpus",
        )
    return Ask(total_milli // MILLI_PER_DEVICE, MILLI_PER_DEVICE, profile=profile, means=Means.MIG)


def _refuse_limits_on_whole(memory: str | None, cores: str | None, *, of_none: bool = False) -> None:
    for flag, value, instead in (
        ("--gpu-mem", memory, "to filter devices by their memory use --min-memory"),
        ("--gpu-cores", cores, "to share a device ask for a fraction such as --gpus 0.5"),
    ):
        if value is not None and of_none:
            raise Refused(f"{flag} {value}: --gpus 0 asks for no GPU; leave one of the two out", field=flag)
        if value is not None:
            raise Refused(f"{flag} {value}: a whole GPU has all its memory and compute; {instead}", field=flag)
