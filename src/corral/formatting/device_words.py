"""A device in a few words, and the colours of its states."""

from __future__ import annotations

from corral.core.model.units import format_share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.client import DeviceRow, HolderRow
    from corral.core.model.answers.devices import PartRow

STATE_STYLES = {
    "free": "green", "allocated": "cyan", "reserved": "blue", "in_use": "yellow", "stale": "yellow",
    "cordoned": "magenta", "suspect": "yellow", "probation": "yellow",
    "quarantined": "red", "unhealthy": "red", "unreadable": "red",
}  # fmt: skip

_WARM, _HOT = 0.6, 0.9


def holder_words(holder: HolderRow) -> str:
    """A job that has a part of a device, with its user: "alice/17", "alice/17 x0.5"."""
    share = "" if holder.share_milli == 1000 else f" x{format_share(holder.share_milli)}"
    return f"{holder.user}/{holder.job}{share}"


def part_words(part: PartRow) -> str:
    """A pod with the part of a device that it has: "pod ml/notebook-0 x0.5"."""
    return f"{part.pod} x{format_share(part.share_milli)}"


def health_words(device: DeviceRow) -> str:
    """The health of a device whose state does not tell it, with the reason, such as "suspect: it is at 96°C".

    "" if it is healthy.
    """
    if device.health in ("healthy", device.state):
        return ""
    told = device.health_reason in (None, device.state_reason)
    return device.health + ("" if told else f": {device.health_reason}")


def parts_in_use(device: DeviceRow) -> tuple[float | None, float | None]:
    """The parts, from 0 to 1, of the device's time and of its memory that are used; None if they are not known."""
    busy = None if device.utilization_pct is None else device.utilization_pct / 100
    used = None
    if device.memory_used_mib is not None and device.memory_total_mib:
        used = device.memory_used_mib / device.memory_total_mib
    return busy, used


def memory_style(part: float | None) -> str:
    """Of memory, where full means that no more fits."""
    if part is None or part >= _HOT:
        return "red"
    return "yellow" if part >= _WARM else "green"


def in_gib(mib: int | None) -> str:
    """GiB without the unit, with a decimal where that tells something; "?" if not known."""
    if mib is None:
        return "?"
    return f"{mib / 1024:.0f}" if mib >= 10 * 1024 else f"{mib / 1024:.1f}"


def known(value: float | None) -> str:
    """A whole number, "?" if it is not known."""
    return "?" if value is None else f"{value:.0f}"
