"""The signs of a device: from the readings before, the reading now and the limits."""

from collections.abc import Collection, Mapping

from corral.core.model.devices.device import SERVICE, Device, DeviceSample
from corral.core.model.devices.health import HealthSign, SignKind, Verdict
from corral.core.model.devices.vitals import DriverError, RecoveryAction, Vitals
from corral.host.telemetry.signs.reading import NOTHING_BEFORE, Quiet, Reading, SignMemory, Symptom, SymptomSeen, Window
from corral.host.telemetry.signs.sign_rules import RECOVERIES, RULES, SEVERITY, SignRule
from corral.vendors.registry import vendor_named
from corral.vendors.vendor import HealthSigns

ERRORS_KEPT_S = 600.0
MOST_ERRORS = 16
"""The time for which a sample tells of an error of the driver, and the most that it tells of."""

WINDOW_S = 60.0
"""The least time over which the growth of a counter is measured."""


def signs_of(
    device: Device,
    sample: DeviceSample,
    before: SignMemory,
    *,
    max_temperature_c: int,
    holders: Collection[str] = (),
) -> tuple[tuple[HealthSign, ...], SignMemory]:
    """Return the signs of a fault of the device, and the memory for its next sample.

    `holders` are the jobs that hold the device. A missing reading neither begins nor ends a sign.
    """
    signs = vendor_named(device.vendor).signs
    unheard = _unheard(before, sample)
    contained = _contained(before.contained, (*sample.errors, *unheard), sample, signs)
    windows = _counted(before.windows, sample.vitals)
    reading = Reading(device, sample, signs, max_temperature_c, before.symptoms, windows, contained)
    symptoms = {
        rule.name: seen
        for rule in RULES
        # Nearly all rules find nothing on nearly all devices.
        if (not isinstance(found := rule.find(reading), Quiet) or rule.name in before.symptoms)
        and (seen := _followed(rule, found, reading)) is not None
    }
    lasting = tuple(seen.sign for seen in symptoms.values() if seen.sign is not None)
    known = {(sign.code, sign.at): sign for sign in before.errors}
    # A first reading may tell of errors that are older than all who hold the device now.
    holders_then = () if before is NOTHING_BEFORE else holders
    # The sign of an error stays as it was when the error was seen first: whoever held the device then met it.
    errors = tuple(
        known.get((error.code, error.at)) or _error_sign(error, reading, holders_then)
        for error in (*sample.errors, *unheard)
    )
    xid = before.xid if sample.xid is None else sample.xid
    return lasting + errors, SignMemory(symptoms, windows, errors, xid, unheard, contained)


def _followed(rule: SignRule, symptom: Symptom | Quiet, reading: Reading) -> SymptomSeen | None:
    """Return the symptom that a rule has found as it has developed; None if there is none."""
    before, now = reading.symptoms.get(rule.name), reading.sample.taken_at
    if isinstance(symptom, Quiet):
        if before is None or symptom is Quiet.UNKNOWN:
            return before
        kept = before.sign is not None and now - before.at < rule.lasts_s
        return before if kept else None
    since, sign = (now, None) if before is None else (before.since, before.sign)
    if now - since < rule.lasts_s:
        return SymptomSeen(since, now, None)
    begun = now if sign is None or sign.verdict is not symptom.verdict else sign.at
    sign = HealthSign(symptom.kind, symptom.verdict, symptom.detail, begun, symptom.code, lasts=True)
    return SymptomSeen(since, now, sign)


def _counted(before: Mapping[str, Window], vitals: Vitals | None) -> Mapping[str, Window]:
    """Return the windows of the counters as of these vitals. A counter that fell was reset."""
    if vitals is None:
        return before
    counters = {
        "pcie replays": vitals.pcie_replays,
        "link replays": vitals.link_replays,
        "link recoveries": vitals.link_recoveries,
    }
    return {
        name: _window(before.get(name), value, vitals.read_at) for name, value in counters.items() if value is not None
    }


def _window(before: Window | None, value: int, now: float) -> Window:
    if before is None or value < before.value:
        return Window(now, value, None)
    minutes = (now - before.at) / 60
    return before if minutes < WINDOW_S / 60 else Window(now, value, (value - before.value) / minutes)


def _unheard(before: SignMemory, sample: DeviceSample) -> tuple[DriverError, ...]:
    """Return the errors of a source without events (a cluster's exporter).

    It has only the last number: another number than before is an error.
    """
    unheard = tuple(error for error in before.unheard if sample.taken_at - error.at < ERRORS_KEPT_S)
    if not sample.xid or before.xid in (None, sample.xid) or sample.errors:
        return unheard
    return (*unheard, DriverError(sample.xid, sample.taken_at))[-MOST_ERRORS:]


def _contained(
    before: bool | None, errors: Collection[DriverError], sample: DeviceSample, signs: HealthSigns
) -> bool | None:
    """Return whether the uncorrectable memory errors so far reached no other work, as the driver's errors say.

    None if no error says so. One that reached others counts until the device was reset.
    """
    codes, was = {error.code for error in errors}, None if sample.ecc_errors == 0 else before
    if was is False or codes & signs.uncontained:
        return False
    return True if codes & signs.contained else was


def _error_sign(error: DriverError, reading: Reading, holders: Collection[str]) -> HealthSign:
    meaning = reading.signs.errors.get(error.code, reading.signs.unknown)
    return HealthSign(
        SignKind.XID,
        _outranked(meaning.verdict, reading.sample.vitals),
        f"{reading.signs.error} {error.code}: {meaning.cause}",
        error.at,
        error.code,
        meaning.ends_job,
        error.pid,
        error.job_id or _only_job(error, reading.sample, holders),
    )


def _only_job(error: DriverError, sample: DeviceSample, holders: Collection[str]) -> str | None:
    """Return the job that must have met an error without a process: the only one that can have been on the device."""
    jobs = [job for job in holders if job != SERVICE]
    others = any(process.job_id not in holders for process in sample.processes or ())
    return jobs[0] if error.pid is None and len(jobs) == 1 and not others else None


def _outranked(verdict: Verdict, vitals: Vitals | None) -> Verdict:
    """Return the verdict on an error by the recovery action that the driver names, if it names one.

    An error that a program caused stays the program's.
    """
    action = None if vitals is None else vitals.recovery
    if action is None or verdict is Verdict.BLAMES_JOB:
        return verdict
    if action is RecoveryAction.NONE:
        return min(verdict, Verdict.SUSPECT, key=SEVERITY.index)
    return max(verdict, RECOVERIES[action][0], key=SEVERITY.index)
