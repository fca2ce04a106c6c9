"""What the Lease of one scheduler name says, and what a server is to do by it. Pure.

Clocks of machines differ, so no time that is written in a lease is compared with one's own: who waits for a lease to
run out measures how long it has seen no change of it.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from corral.kubernetes.cluster.objects import mapping, number, text

PREFIX = "corral.dev/"
SCHEDULER = PREFIX + "scheduler"
SERVER = PREFIX + "server"
HOME = PREFIX + "home"
WHERE = PREFIX + "where"
"""Annotations: of which scheduler name the lease is; the tag of the server that has it, which home it is, and where."""

DURATION_S = 15
"""So long nobody else takes a lease of which no renewal was seen."""

SURE_S = 10.0
"""So long after it asked for a renewal its holder is sure of it: what it begins has ended before another begins."""

LONGEST_S = 60
"""Who writes that a lease lasts longer is not believed."""

MOST_CHARACTERS = 200
MOST_TRANSITIONS = (1 << 31) - 2

_PLAIN_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,180}[a-z0-9])?", re.ASCII)


def lease_name(scheduler: str) -> str:
    """The name of the Lease: two schedulers never have the same."""
    if _PLAIN_NAME.fullmatch(scheduler) and ".." not in scheduler and ".-" not in scheduler and "-." not in scheduler:
        return f"scheduler-{scheduler}"
    return f"scheduler.{hashlib.sha256(scheduler.encode()).hexdigest()}"


@dataclass(frozen=True, slots=True)
class LeaseCandidate:
    """A server that would have the lease.

    Attributes:
        identity: of this very process.
        tag: of the server.
        home: names its directory and the boot of its machine: only one process at a time serves it.
        where: the same for people, as "root@gpu-01:/root/.corral".
    """

    identity: str
    tag: str
    home: str
    where: str


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A Lease as it was read; what makes no sense is missing.

    Attributes:
        scheduler: whose pods its holder binds.
        holder: the process that has it; "" where nobody does.
        tag, home, where: as of `LeaseCandidate`.
        acquired_at, renewed_at: as the holder's clock said, for people.
        duration_s: how long it lasts without a renewal.
        transitions: how often it went from one to another.
        version: of the object.
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
        """What changes with each renewal."""
        return self.holder, self.renewed_at, self.transitions

    def __str__(self) -> str:
        since = f", since {self.acquired_at}" if self.acquired_at else ""
        return f"server {self.tag or self.holder} ({self.where or self.holder}){since}"


def read_lease(item: Mapping[str, Any]) -> LeaseRecord:
    """What a Lease object says; whoever has the right may have written it."""
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
    """What a server is to do with the lease as it stands."""

    RENEW = auto()
    TAKE = auto()
    WAIT = auto()


def next_step(record: LeaseRecord, me: LeaseCandidate, unchanged_s: float) -> LeaseStep:
    """What `me` is to do with a lease in which it has seen no change for so long.

    An earlier process of the same home has ended, whatever it wrote, so that nobody waits for it.
    """
    if record.holder == me.identity:
        return LeaseStep.RENEW
    if not record.holder or unchanged_s >= record.duration_s:
        return LeaseStep.TAKE
    return LeaseStep.TAKE if record.home == me.home else LeaseStep.WAIT


def renewed(record: LeaseRecord, now: str) -> dict[str, Any]:
    """The change that renews the lease; `now` is as the API writes times, with microseconds."""
    return {"metadata": {"resourceVersion": record.version}, "spec": {"renewTime": now}}


def taken(record: LeaseRecord, scheduler: str, me: LeaseCandidate, now: str) -> dict[str, Any]:
    """The change by which `me` takes the lease over."""
    body = made(scheduler, me, now)
    body["metadata"] |= {"resourceVersion": record.version}
    body["spec"]["leaseTransitions"] = record.transitions + 1
    return body


def made(scheduler: str, me: LeaseCandidate, now: str) -> dict[str, Any]:
    """The lease as `me` makes it where there is none."""
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
    """The change by which its holder lets it go."""
    return {"metadata": {"resourceVersion": record.version}, "spec": {"holderIdentity": None, "renewTime": None}}
