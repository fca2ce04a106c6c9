"""Faults of the site that a job met: what it wants then, and the devices that it keeps off afterwards."""

from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple

AVOIDED_S = 7 * 86400.0
"""A job keeps off a device for this long after the device fell sick under it."""

SICK_DEVICES_HELD = 2
"""A job under which this many devices fell sick within AVOIDED_S is held for an administrator."""

Avoided = tuple[tuple[str, float], ...]
"""Devices that a job keeps off, each with the time at which it fell sick: (UUID, Unix seconds) pairs, oldest first."""


class OnFault(StrEnum):
    """The treatment of a job when one of its devices falls sick.

    REQUEUE: it is stopped at once, and goes on elsewhere from its last checkpoint. CHECKPOINT: it gets its checkpoint
    signal and its grace first. LEAVE: its user is told, and it runs until it ends.
    """

    REQUEUE = "requeue"
    CHECKPOINT = "checkpoint"
    LEAVE = "leave"


class UserFaults(NamedTuple):
    """The faults of devices during the jobs of a user: each with its node and its time, and the last in a sentence."""

    incidents: tuple[tuple[str, float], ...]
    last: str


def avoiding(avoided: Avoided, uuid: str, at: float) -> Avoided:
    """`avoided` with one more device, and without those that have aged."""
    return (*(one for one in not_aged(avoided, at) if one[0] != uuid), (uuid, at))


def not_aged(avoided: Avoided, at: float) -> Avoided:
    """The devices that a job still keeps off at `at`."""
    return tuple(one for one in avoided if at < one[1] + AVOIDED_S)


def too_many(avoided: Collection[tuple[str, float]]) -> bool:
    """Whether so many devices fell sick under a job that only an administrator may start it again."""
    return len(avoided) >= SICK_DEVICES_HELD
