"""The rules by which a reading of a device shows a fault. Each has one symptom at most."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from corral.core.model.devices.device import throttle_reasons
from corral.core.model.devices.health import SignKind, Verdict
from corral.core.model.devices.vitals import ReadFailure, RecoveryAction
from corral.core.model.units import count_of
from corral.host.telemetry.signs.reading import Quiet, Reading, Symptom

COOL_DOWN_C = 5
"""A device that was too hot is well again only this far below the limit."""

LASTS_S = 60.0
"""A state that comes with heavy work, such as low clocks, is a sign only once it has lasted this long without a break.
It is gone only after as long without it.
"""

MOST_PCIE_REPLAYS = 8.0
MOST_LINK_REPLAYS = 60.0
"""The most packets a minute that a healthy link sends again. The sign is gone at half of that."""

RECOVERIES: Mapping[RecoveryAction, tuple[Verdict, str]] = {
    RecoveryAction.DRAIN_P2P: (Verdict.SUSPECT, "work over several GPUs must end"),
    RecoveryAction.RESET: (Verdict.QUARANTINE, "the GPU must be reset"),
    RecoveryAction.DRAIN_AND_RESET: (Verdict.QUARANTINE, "its work must end, then the GPU must be reset"),
    RecoveryAction.REBOOT: (Verdict.QUARANTINE, "the node must be rebooted"),
    RecoveryAction.OTHER: (
        Verdict.QUARANTINE,
        "it needs an action that Corral does not know",
    ),
}
"""The consequence of a recovery action that a driver names."""

SEVERITY = (Verdict.TOLD, Verdict.SUSPECT, Verdict.QUARANTINE)

_THROTTLES = {"sw_thermal": Verdict.TOLD, "hw_thermal": Verdict.SUSPECT, "hw_slowdown": Verdict.SUSPECT}
"""The causes of low clocks that are a sign. A power cap is not: any heavy work reaches it."""


def _lost(reading: Reading) -> Symptom | Quiet:
    if reading.sample.failure is not ReadFailure.LOST:
        return Quiet.FINE
    return Symptom(SignKind.LOST, Verdict.QUARANTINE, str(reading.sample.fault))


def _unreadable(reading: Reading) -> Symptom | Quiet:
    """A driver that fails for all devices does not make one of them suspect. A call that hangs is about one."""
    if reading.sample.fault is None or reading.sample.failure is ReadFailure.LOST:
        return Quiet.FINE
    hung = reading.sample.failure is ReadFailure.HUNG
    return Symptom(SignKind.UNREADABLE, Verdict.SUSPECT if hung else Verdict.TOLD, reading.sample.fault)


def _recovery(reading: Reading) -> Symptom | Quiet:
    action = None if reading.sample.vitals is None else reading.sample.vitals.recovery
    if action is None or action is RecoveryAction.NONE:
        return _absent(action)
    verdict, need = RECOVERIES[action]
    return Symptom(SignKind.XID, verdict, f"its driver asks for recovery: {need}", reading.signs.recovery)


def _memory_errors(reading: Reading) -> Symptom | Quiet:
    count = reading.sample.ecc_errors
    if not count:
        return _absent(count)
    vitals = reading.sample.vitals
    harmless = reading.contained or (vitals is not None and vitals.recovery is RecoveryAction.NONE)
    errors = count_of(count, "uncorrectable memory error")
    detail = f"{errors} since the driver was loaded; reset it: {reading.reset()}"
    return Symptom(SignKind.ECC_UNCORRECTABLE, Verdict.SUSPECT if harmless else Verdict.QUARANTINE, detail)


def _remap_pending(reading: Reading) -> Symptom | Quiet:
    pending = None if reading.sample.vitals is None else reading.sample.vitals.remap_pending
    if not pending:
        return _absent(pending)
    detail = f"faulty rows of its memory are replaced at its next reset: {reading.reset()}"
    return Symptom(SignKind.REMAP_PENDING, Verdict.SUSPECT, detail)


def _remap_failed(reading: Reading) -> Symptom | Quiet:
    failed = None if reading.sample.vitals is None else reading.sample.vitals.remap_failed
    if not failed:
        return _absent(failed)
    detail = "a faulty row of its memory could not be replaced; its vendor should replace the device"
    return Symptom(SignKind.REMAP_FAILED, Verdict.QUARANTINE, detail)


def _temperature(reading: Reading) -> Symptom | Quiet:
    now_c = reading.sample.temperature_c
    if now_c is None:
        return Quiet.UNKNOWN
    limit_c = reading.max_temperature_c - (COOL_DOWN_C if reading.told("temperature") else 0)
    if now_c <= limit_c:
        return Quiet.FINE
    return Symptom(SignKind.TEMPERATURE, Verdict.QUARANTINE, f"it is at {now_c}°C; at most {limit_c}°C is allowed")


def _own_temperature(reading: Reading) -> Symptom | Quiet:
    """The device's own limits: it slows itself at one of them, and switches itself off at the other."""
    vitals = reading.sample.vitals
    if vitals is None or (vitals.below_slowdown_c is None and vitals.below_shutdown_c is None):
        return Quiet.UNKNOWN
    told = reading.told("own temperature")
    shutdown_c, slowdown_c = vitals.below_shutdown_c, vitals.below_slowdown_c
    needed_c = COOL_DOWN_C if told is Verdict.QUARANTINE else 0
    if shutdown_c is not None and shutdown_c <= needed_c:
        detail = f"{shutdown_c} degrees are left until it switches itself off; more than {needed_c} are needed"
        return Symptom(SignKind.TEMPERATURE, Verdict.QUARANTINE, detail)
    needed_c = COOL_DOWN_C if told else 0
    if slowdown_c is not None and slowdown_c <= needed_c:
        detail = f"{slowdown_c} degrees are left until it slows itself; more than {needed_c} are needed"
        return Symptom(SignKind.TEMPERATURE, Verdict.SUSPECT, detail)
    return Quiet.FINE


def _throttle(reading: Reading) -> Symptom | Quiet:
    bits = reading.sample.throttle
    causes = [name for name in throttle_reasons(bits) if name in _THROTTLES] if bits else []
    if not causes:
        return _absent(bits)
    verdict = max((_THROTTLES[name] for name in causes), key=SEVERITY.index)
    return Symptom(SignKind.THROTTLE, verdict, f"its clocks are kept low by {' and '.join(causes)}")


def _power_brake(reading: Reading) -> Symptom | Quiet:
    bits = reading.sample.throttle
    if not bits or "power_brake" not in throttle_reasons(bits):
        return _absent(bits)
    detail = "its clocks are kept low by its power supply (power_brake)"
    return Symptom(SignKind.POWER_BRAKE, Verdict.SUSPECT, detail)


def _pcie_lanes(reading: Reading) -> Symptom | Quiet:
    vitals = reading.sample.vitals
    return _pcie_below(reading, "lanes", *((vitals.pcie_lanes, vitals.most_pcie_lanes) if vitals else (None, None)))


def _pcie_generation(reading: Reading) -> Symptom | Quiet:
    vitals = reading.sample.vitals
    link = (vitals.pcie_generation, vitals.best_pcie_generation) if vitals else (None, None)
    return _pcie_below(reading, "generation", *link)


def _pcie_below(reading: Reading, what: str, now: int | None, best: int | None) -> Symptom | Quiet:
    """A device at rest lets its link rest, too: only what the link has at work counts."""
    if now is None or best is None or not reading.sample.utilization_pct:
        return Quiet.UNKNOWN
    if now >= best:
        return Quiet.FINE
    detail = f"its PCIe link works with {what} {now}; {best} is its best here"
    return Symptom(SignKind.PCIE, Verdict.SUSPECT, detail)


def _pcie_replays(reading: Reading) -> Symptom | Quiet:
    growth, limit = _growth_and_limit(reading, "pcie replays", MOST_PCIE_REPLAYS)
    if growth is None or growth <= limit:
        return _absent(growth)
    detail = f"its PCIe link sent {growth:.0f} packets again within a minute; up to {limit:.0f} are usual"
    return Symptom(SignKind.PCIE, Verdict.TOLD, detail)


def _link_replays(reading: Reading) -> Symptom | Quiet:
    growth, limit = _growth_and_limit(reading, "link replays", MOST_LINK_REPLAYS)
    if growth is None or growth <= limit:
        return _absent(growth)
    sent = f"its links to other devices sent {growth:.0f} packets again within a minute"
    return Symptom(SignKind.NVLINK, Verdict.SUSPECT, f"{sent}; up to {limit:.0f} are usual")


def _growth_and_limit(reading: Reading, rule: str, most: float) -> tuple[float | None, float]:
    return reading.growth(rule), most / 2 if reading.told(rule) else most


def _link_recoveries(reading: Reading) -> Symptom | Quiet:
    growth = reading.growth("link recoveries")
    if not growth:
        return _absent(growth)
    detail = "a link to another device failed within the last minute, and was trained again"
    return Symptom(SignKind.NVLINK, Verdict.SUSPECT, detail)


def _links_down(reading: Reading) -> Symptom | Quiet:
    down = None if reading.sample.vitals is None else reading.sample.vitals.links_down
    if not down:
        return _absent(down)
    detail = f"{count_of(down, 'link')} to other devices that worked before {'is' if down == 1 else 'are'} down"
    return Symptom(SignKind.NVLINK, Verdict.SUSPECT, detail)


def _absent(value: object) -> Quiet:
    """Return the answer of a rule that sees no fault in this value: a missing one says nothing."""
    return Quiet.UNKNOWN if value is None else Quiet.FINE


class SignRule(NamedTuple):
    """A rule, its name, and the time for which its symptom must last before it is a sign, and be absent after that."""

    name: str
    find: Callable[[Reading], Symptom | Quiet]
    lasts_s: float = 0.0


RULES = (
    SignRule("lost", _lost),
    SignRule("unreadable", _unreadable),
    SignRule("recovery", _recovery),
    SignRule("memory errors", _memory_errors),
    SignRule("remap failed", _remap_failed),
    SignRule("remap pending", _remap_pending),
    SignRule("temperature", _temperature),
    SignRule("own temperature", _own_temperature),
    SignRule("throttle", _throttle, LASTS_S),
    SignRule("power brake", _power_brake, LASTS_S),
    SignRule("pcie lanes", _pcie_lanes, LASTS_S),
    SignRule("pcie generation", _pcie_generation, LASTS_S),
    SignRule("pcie replays", _pcie_replays),
    SignRule("link recoveries", _link_recoveries),
    SignRule("link replays", _link_replays),
    SignRule("links down", _links_down),
)
