"""The Lease of one scheduler name, and the next step of a server that reads it. Pure.

Clocks of machines differ, so times written in a lease are never compared with the local clock. A server that waits for
a lease to run out measures how long the lease has not changed.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from corral.engines.kubernetes.cluster.objects import mapping, number, text

PREFIX = "corral.dev/"
SCHEDULER = PREFIX + "scheduler"
SERVER = PREFIX + "server"
HOME = PREFIX + "home"
WHERE = PREFIX + "where"
"""The annotations of the lease: its scheduler name, and the tag, the home and the place of the server that holds it."""

DURATION_S = 15
"""A lease without a renewal may be taken after this time."""

SURE_S = 10.0
"""The holder counts on its lease for this long after it asked for a renewal. Its requests end before another server
starts.
"""

LONGEST_S = 60
"""The upper bound of a lease's duration. A longer one is not trusted."""

MOST_CHARACTERS = 200
MOST_TRANSITIONS = (1 << 31) - 2

_PLAIN_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,180}[a-z0-9])?", re.ASCII)


def lease_name(scheduler: str) -> str:
    """Return the name of the Lease for a scheduler name. No two scheduler names have the same Lease."""
    if _PLAIN_NAME.fullmatch(scheduler) and ".." not in scheduler and ".-" not in scheduler and "-." not in scheduler:
        return f"scheduler-{scheduler}"
    return f"scheduler.{hashlib.sha256(scheduler.encode()).hexdigest()}"


@dataclass(frozen=True, slots=True)
class LeaseCandidate:
    """A server that wants the lease.

    Attributes:
        identity: names this process.
        tag: the server's tag.
        home: names its directory and the boot of its machine. Only one process at a time serves a home.
        where: the same for people, as "root@gpu-01:/root/.corral".
    """

    identity: str
    tag: str
    home: str
    where: str


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A Lease as it was read, without invalid values.

    Attributes:
        scheduler: the scheduler name whose pods the holder binds.
        holder: the process that has the lease, or "".
        tag, home, where: as in `LeaseCandidate`.
        acquired_at, renewed_at: times of the holder's clock, for display only.
        duration_s: how long it lasts without a renewal.
        transitions: how often the holder changed.
        version: the object's resource version.
    """

    scheduler: str
    holder: str
    tag: str
    home: str
    where: str
    acquired_at: str
    renewed_at: str
    duration_s: float
    transitions: int
    version: str

    @property
    def seen(self) -> tuple[str, str, int]:
        """The fields of which at least one changes with each renewal."""
        return self.holder, self.renewed_at, self.transitions

    def __str__(self) -> str:
        since = f", since {self.acquired_at}" if self.acquired_at else ""
        return f"server {self.tag or self.holder} ({self.where or self.holder}){since}"


def read_lease(item: Mapping[str, Any]) -> LeaseRecord:
    """Read a Lease object. Its text is untrusted: anybody with the right may have written it."""
    metadata, spec = mapping(item.get("metadata")), mapping(item.get("spec"))
    notes = mapping(metadata.get("annotations"))
    duration_s = number(spec.get("leaseDurationSeconds")) or DURATION_S
    return LeaseRecord(
        scheduler=_words(notes.get(SCHEDULER)),
        holder=_words(spec.get("holderIdentity")),
        tag=_words(notes.get(SERVER)),
        home=_words(notes.get(HOME)),
        where=_words(notes.get(WHERE)),
        acquired_at=_words(spec.get("acquireTime"))[:19].replace("T", " "),
        renewed_at=_words(spec.get("renewTime")),
        duration_s=max(1, min(duration_s, LONGEST_S)),
        transitions=max(0, min(number(spec.get("leaseTransitions")) or 0, MOST_TRANSITIONS)),
        version=str(metadata.get("resourceVersion") or ""),
    )


def _words(value: object) -> str:
    return "".join(c if c.isprintable() else " " for c in (text(value) or "")[:MOST_CHARACTERS])


class LeaseStep(Enum):
    """The next step of a server, given the state of the lease."""

    RENEW = auto()
    TAKE = auto()
    WAIT = auto()


def next_step(record: LeaseRecord, me: LeaseCandidate, unchanged_s: float) -> LeaseStep:
    """Return the next step of `me`, given the time for which it has seen no change of the lease.

    A lease of the same home is taken at once: the earlier process of that home has ended.
    """
    if record.holder == me.identity:
        return LeaseStep.RENEW
    if not record.holder or unchanged_s >= record.duration_s:
        return LeaseStep.TAKE
    return LeaseStep.TAKE if record.home == me.home else LeaseStep.WAIT


def renewed(record: LeaseRecord, now: str) -> dict[str, Any]:
    """Return the change that renews the lease. `now` is a time in the API's notation, with microseconds."""
    return {"metadata": {"resourceVersion": record.version}, "spec": {"renewTime": now}}


def taken(record: LeaseRecord, scheduler: str, me: LeaseCandidate, now: str) -> dict[str, Any]:
    """Return the change by which `me` takes the lease over."""
    body = made(scheduler, me, now)
    body["metadata"] |= {"resourceVersion": record.version}
    body["spec"]["leaseTransitions"] = record.transitions + 1
    return body


def made(scheduler: str, me: LeaseCandidate, now: str) -> dict[str, Any]:
    """Return the lease that `me` creates if there is none."""
    return {
        "metadata": {
            "name": lease_name(scheduler),
            "labels": {"app.kubernetes.io/managed-by": "corral"},
            "annotations": {SCHEDULER: scheduler, SERVER: me.tag, HOME: me.home, WHERE: me.where},
        },
        "spec": {
            "holderIdentity": me.identity,
            "leaseDurationSeconds": DURATION_S,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0,
        },
    }


def released(record: LeaseRecord) -> dict[str, Any]:
    """Return the change by which the holder releases the lease."""
    return {"metadata": {"resourceVersion": record.version}, "spec": {"holderIdentity": None, "renewTime": None}}
