"""Finds devices on which the jobs of several users fail although they succeed elsewhere. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from corral.core.model.devices.health import HealthSign, SignKind, Verdict
from corral.core.model.units import count_of

WINDOW_S = 24 * 3600.0
"""The time in the past in which ends of jobs count."""

USERS = 3
"""The users whose jobs must fail on a device. The jobs of one user, however many, say nothing of a device."""


class JobEnd(NamedTuple):
    """The end of a job by itself: its user, its devices, whether it failed, and when, Unix seconds."""

    user: str
    uuids: tuple[str, ...]
    failed: bool
    at: float


def failing_devices(ends: Sequence[JobEnd], now: float) -> dict[str, HealthSign]:
    """The signs of devices on which jobs fail out of line with the others, by UUID. `ends` are in order of time.

    A user counts whose last jobs on the device all failed, and who had a job succeed on other devices. A success of
    anybody on the device ends what was counted: whatever failed before was no fault of the device.
    """
    recent = [end for end in ends if now - end.at <= WINDOW_S]
    succeeded = _places_of_success(recent)
    failed: dict[str, dict[str, list[float]]] = {}
    for end in recent:
        for uuid in end.uuids:
            if not end.failed:
                failed.pop(uuid, None)
            elif succeeded.get(end.user, frozenset()) - {uuid}:
                failed.setdefault(uuid, {}).setdefault(end.user, []).append(end.at)
    return {uuid: _sign(users) for uuid, users in sorted(failed.items()) if len(users) >= USERS}


def _places_of_success(ends: Iterable[JobEnd]) -> dict[str, frozenset[str]]:
    """The devices on which each user's jobs succeeded."""
    found: dict[str, frozenset[str]] = {}
    for end in ends:
        if not end.failed:
            found[end.user] = found.get(end.user, frozenset()) | frozenset(end.uuids)
    return found


def _sign(users: dict[str, list[float]]) -> HealthSign:
    times = sorted(at for failures in users.values() for at in failures)
    failures = f"{count_of(len(times), 'job')} of {count_of(len(users), 'user')}"
    detail = f"{failures} failed on it one after the other, and theirs succeed on other GPUs"
    return HealthSign(SignKind.JOB_FAILURES, Verdict.SUSPECT, detail, times[-1])
