"""Explains why devices cannot have the power limit that a request asks for."""

from collections.abc import Sequence

from corral.core.model.devices.device import Device
from corral.core.model.jobs.job import Request
from corral.core.model.units import MW_PER_W

UNKNOWN = "its driver names no range"


def power_lack(devices: Sequence[Device], request: Request, none: str) -> str | None:
    """A sentence if none of these devices takes the request's power limit; None if one does, or there is no limit.

    `none` is the subject, such as "no GPU here".
    """
    limit_w = request.power_limit_w
    if limit_w is None or not devices or any(hindrance(device, limit_w) is None for device in devices):
        return None
    ranges = [device.settable_power_mw for device in devices if device.settable_power_mw is not None]
    if not ranges:
        why = next((device.power_fixed for device in devices if device.power_fixed is not None), UNKNOWN)
        return f"{none} lets a job set its power limit: {why}; leave out --power-limit"
    least, most = min(least for least, _ in ranges), max(most for _, most in ranges)
    return f"{none} takes a power limit of {limit_w} W; ask for {in_watts((least, most))}"


def hindrance(device: Device, limit_w: int) -> str | None:
    """A clause on the device if its power limit cannot be set to `limit_w`; None if it can."""
    settable = device.settable_power_mw
    if settable is None:
        return f"whose power limit cannot be set ({device.power_fixed or UNKNOWN})"
    least, most = settable
    return None if least <= limit_w * MW_PER_W <= most else f"whose power limit must be {in_watts(settable)}"


def in_watts(settable: tuple[int, int]) -> str:
    """A range of power limits in words: "100 to 400 W"."""
    least, most = settable
    return f"{least / MW_PER_W:g} to {most / MW_PER_W:g} W"
