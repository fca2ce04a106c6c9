"""The health of a device as it develops: signs of a fault, their end, a test and a watch, and an administrator's word.

Each function takes the present health and returns the next one. None of them reads a clock or a device.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from corral.core.model.devices.health import DeviceHealth, Health, HealthSign, SignKind, Verdict
from corral.core.model.units import format_duration

MOST_SUSPECTS = 3
"""A device on which a fault is suspected more often than this is quarantined."""

FORGOTTEN_AFTER_S = 7 * 86400.0
"""The faults of a device that was healthy for this time are forgotten."""

BURST_S = 10.0
"""Suspicions within this time after another are the same: errors of one fault come in bursts."""

_QUIET_S = 5.0
"""The time without signs of its fault before a device is tested the first time. Each relapse doubles it."""

_LONGEST_QUIET_S = 3600.0

_MOST_DOUBLINGS = 30

_EVENTS = frozenset({SignKind.XID, SignKind.JOB_FAILURES, SignKind.PROBATION_FAILED})
"""The kinds of faults whose end nobody reads: it takes a reset."""

_END_BY_RESET = frozenset(
    {SignKind.LOST, SignKind.UNREADABLE, SignKind.ECC_UNCORRECTABLE, SignKind.REMAP_PENDING, SignKind.REMAP_FAILED}
)
"""The kinds of lasting signs that only end if the device is reset, or comes back."""


@dataclass(frozen=True, slots=True)
class HealthPolicy:
    """The first watch over a device, which each relapse doubles, and the longest, in seconds."""

    watch_s: float
    longest_watch_s: float

    def watch(self, relapses: int) -> float:
        """The length of the watch over a device that fell sick this often."""
        return _doubled(self.watch_s, relapses, self.longest_watch_s)


@dataclass(frozen=True, slots=True)
class Look:
    """The result of one look at a device.

    Attributes:
        at: when, Unix seconds.
        signs: those that are read, with errors of the last minutes.
        boot: the boot of its node; None if unknown.
        was_reset: the device was reset since the last look.
        quiet_s: for how long the device has been read without a lasting sign that matters, in seconds.
        unread: the device could not be read, so a sign that is not there says nothing.
    """

    at: float
    signs: tuple[HealthSign, ...] = ()
    boot: str | None = None
    was_reset: bool = False
    quiet_s: float = 0.0
    unread: bool = False


@dataclass(frozen=True, slots=True)
class HealthStep:
    """The next health of a device, and the signs behind the change, each in a sentence."""

    health: DeviceHealth
    evidence: tuple[str, ...] = ()


def _is_fresh(sign: HealthSign, health: DeviceHealth) -> bool:
    """Whether a sign was not counted yet. Suspicions of one burst count once, also if a clock moved their times."""
    burst_s = BURST_S if sign.verdict is Verdict.SUSPECT and health.state is Health.SUSPECT else 0.0
    return sign.at > health.noted + burst_s


def that_matter(signs: Iterable[HealthSign], health: DeviceHealth) -> tuple[HealthSign, ...]:
    """Return the signs that may change the health of a device: those against it, that nobody has accepted."""
    return tuple(
        sign
        for sign in signs
        if sign.verdict in (Verdict.QUARANTINE, Verdict.SUSPECT) and not (sign.lasts and sign.kind in health.trusted)
    )


def looked_at(health: DeviceHealth, look: Look, policy: HealthPolicy) -> HealthStep | None:
    """Return the next health of a device after a look at it; None if it stays the same."""
    signs = that_matter(look.signs, health)
    fresh = tuple(sign for sign in signs if _is_fresh(sign, health))
    counted = tuple(sign for sign in signs if sign.lasts or sign in fresh)
    known = replace(
        health,
        noted=max((health.noted, *(sign.at for sign in fresh))),
        trusted=tuple(kind for kind in health.trusted if look.unread or kind in _lasting(look.signs)),
    )
    grave = tuple(sign for sign in counted if sign.verdict is Verdict.QUARANTINE)
    if health.state is Health.QUARANTINED:
        after = _still_quarantined(known, grave, look, signs)
    elif grave:
        after = _quarantined(known, grave, _most_telling(grave).detail, look)
    elif health.state is Health.PROBATION:
        after = _on_probation(known, fresh, counted, look)
    else:
        after = _suspected(known, fresh, counted, look, policy)
    # The same error again and again writes nothing.
    same = after == replace(health, noted=after.noted)
    return None if same else HealthStep(after, tuple(sign.detail for sign in fresh))


def after_test(health: DeviceHealth, failure: str | None, look: Look, policy: HealthPolicy) -> HealthStep:
    """Return the next health of a device on probation after its test, which found this fault; None is none."""
    if failure is None:
        until, reason = look.at + policy.watch(health.relapses), f"{health.reason}; it passed its test, and is watched"
        watched = replace(health, reason=reason, tested=True, until=until)
        return HealthStep(watched, ("it passed its test",))
    detail = f"it failed its test: {failure}"
    failed = HealthSign(SignKind.PROBATION_FAILED, Verdict.QUARANTINE, detail, look.at)
    return HealthStep(_quarantined(health, (failed,), detail, look), (detail,))


def needs_reset(health: DeviceHealth) -> bool:
    """Whether the quarantine of a device ends only with a reset, or its return."""
    return not (_EVENTS | _END_BY_RESET).isdisjoint(health.kinds)


def trusted(health: DeviceHealth, signs: Sequence[HealthSign], by: str, at: float) -> HealthStep:
    """Return the health of a device that an administrator trusts, whatever signs are read now."""
    accepted = tuple(sorted(_lasting(that_matter(signs, replace(health, trusted=())))))
    well = DeviceHealth(Health.HEALTHY, f"{by} trusts it", at, trusted=accepted, noted=at)
    return HealthStep(
        well, (f"{by} trusts it", *(f"accepted: {sign.detail}" for sign in signs if sign.kind in accepted))
    )


def put_on_probation(health: DeviceHealth, by: str, at: float) -> HealthStep:
    """Return the health of a device that an administrator wants tested and watched, as after a fault."""
    sick = health.state in (Health.QUARANTINED, Health.SUSPECT)
    reason = f"{by} wants it tested" + (f": {health.reason}" if sick else "")
    return HealthStep(_probation(health, reason, at), (f"{by} wants it tested",))


def tested_for_idleness(health: DeviceHealth, job_id: str, unused_s: float, at: float) -> HealthStep | None:
    """Return the health of a device that is tested once a job that did not use it has ended; None if it is sick."""
    if health.state is not Health.HEALTHY:
        return None
    reason = f"job {job_id} has it and did not use it for {format_duration(unused_s)}: it is tested after the job"
    return HealthStep(_probation(health, reason, at), (reason,))


def _probation(health: DeviceHealth, reason: str, at: float) -> DeviceHealth:
    relapses = max(health.relapses, 1)
    return DeviceHealth(Health.PROBATION, reason, at, relapses=relapses, trusted=health.trusted, noted=at)


def _still_quarantined(
    health: DeviceHealth, grave: Sequence[HealthSign], look: Look, signs: Sequence[HealthSign]
) -> DeviceHealth:
    health = replace(health, kinds=tuple(sorted({*health.kinds, *(sign.kind for sign in grave)})))
    if not _is_gone(health, look, signs) or look.quiet_s < _doubled(_QUIET_S, health.relapses, _LONGEST_QUIET_S):
        return health
    reason, noted = f"its fault is gone, which was: {health.reason}", max(look.at, health.noted)
    return replace(health, state=Health.PROBATION, reason=reason, since=look.at, kinds=(), noted=noted, boot=None)


def _is_gone(health: DeviceHealth, look: Look, signs: Sequence[HealthSign]) -> bool:
    if look.unread or not _lasting(signs).isdisjoint(health.kinds):
        return False
    rebooted = health.boot is not None and look.boot is not None and health.boot != look.boot
    was_reset = look.was_reset or rebooted or not _END_BY_RESET.isdisjoint(health.kinds)
    return was_reset or _EVENTS.isdisjoint(health.kinds)


def _on_probation(
    health: DeviceHealth, fresh: Sequence[HealthSign], counted: Sequence[HealthSign], look: Look
) -> DeviceHealth:
    if fresh:
        return _quarantined(health, fresh, f"on probation: {fresh[0].detail}", look)
    if not health.tested or health.until is None or look.at < health.until or look.unread:
        return health
    if counted:
        return _suspect(health, counted, None, look.at)
    return replace(health, state=Health.HEALTHY, reason="it has proved itself", since=look.at, until=None, tested=False)


def _suspected(
    health: DeviceHealth,
    fresh: Sequence[HealthSign],
    counted: Sequence[HealthSign],
    look: Look,
    policy: HealthPolicy,
) -> DeviceHealth:
    """Return the next health of a device that is healthy or suspect, after signs that do not quarantine it."""
    at, was_healthy = look.at, health.state is Health.HEALTHY
    if was_healthy and at - health.since >= FORGOTTEN_AFTER_S and not health.trusted:
        # A sign of now stays noted, or the next look would take it for another one.
        health = replace(health, relapses=0, reason="", since=0.0, noted=health.noted if counted else 0.0)
    if was_healthy and not counted:
        return health
    relapses = health.relapses + bool(fresh or was_healthy)
    if relapses > MOST_SUSPECTS:
        reason = f"a fault was suspected {relapses} times, now: {counted[0].detail}"
        return _quarantined(health, counted, reason, look)
    health = replace(health, relapses=relapses)
    if _lasting(counted):
        return _suspect(health, counted, None, at)
    if counted or health.until is None:
        return _suspect(health, counted, at + policy.watch(relapses), at)
    if at < health.until or look.unread:
        return health
    return replace(health, state=Health.HEALTHY, reason="it has shown no more signs", since=at, until=None, kinds=())


def _suspect(health: DeviceHealth, signs: Sequence[HealthSign], until: float | None, at: float) -> DeviceHealth:
    kinds = {sign.kind for sign in signs}
    if health.state is Health.SUSPECT:
        return replace(health, kinds=tuple(sorted({*health.kinds, *kinds})), until=until)
    return replace(
        health,
        state=Health.SUSPECT,
        reason=signs[0].detail,
        since=at,
        kinds=tuple(sorted(kinds)),
        until=until,
        tested=False,
    )


def _quarantined(health: DeviceHealth, signs: Sequence[HealthSign], reason: str, look: Look) -> DeviceHealth:
    return replace(
        health,
        state=Health.QUARANTINED,
        reason=reason,
        since=look.at,
        kinds=tuple(sorted({sign.kind for sign in signs})),
        until=None,
        relapses=health.relapses + 1,
        tested=False,
        boot=look.boot,
    )


def _most_telling(signs: Sequence[HealthSign]) -> HealthSign:
    """Return the sign for people to read first: an error with a number, if there is one."""
    return next((sign for sign in signs if sign.code is not None), signs[0])


def _lasting(signs: Iterable[HealthSign]) -> frozenset[SignKind]:
    return frozenset(sign.kind for sign in signs if sign.lasts)


def _doubled(first: float, relapses: int, longest: float) -> float:
    return min(longest, first * 2.0 ** min(max(relapses - 1, 0), _MOST_DOUBLINGS))
