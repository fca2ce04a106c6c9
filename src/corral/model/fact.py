"""Facts: what happened and is on disk. Observations: what was measured and may be lost. Both advance a `View`.

A journal entry is a fact; folding the journal from the start gives the ledger's tables again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from corral.model.allocation import Allocation, Reserve
from corral.model.device import DeviceCondition, Node, Silence
from corral.model.job import Job
from corral.model.queue import Limits, Pool, Project, Queue


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    """A job was accepted; `at` is the server's clock in Unix seconds, here and below."""

    job: Job
    at: float


@dataclass(frozen=True, slots=True)
class JobChanged:
    """Fields of a job took new values; `changes` maps names of `Job`'s fields (never `spec`) to them."""

    job_id: str
    changes: Mapping[str, Any]
    at: float


@dataclass(frozen=True, slots=True)
class JobRequeued:
    """A job that had ended went back to its queue; `job` is it as it stands now, PENDING."""

    job: Job
    at: float


@dataclass(frozen=True, slots=True)
class AllocationMade:
    """Devices were handed out."""

    allocation: Allocation
    at: float


@dataclass(frozen=True, slots=True)
class AllocationEnded:
    """Devices came back. What was done on them from `lost_from` on is lost, as the job made room; None: nothing is."""

    allocation_id: str
    job_id: str
    at: float
    lost_from: float | None = None


@dataclass(frozen=True, slots=True)
class DeviceCordoned:
    """An administrator set a device apart."""

    uuid: str
    reason: str
    by: str
    at: float


@dataclass(frozen=True, slots=True)
class DeviceUncordoned:
    """An administrator gave a device back."""

    uuid: str
    by: str
    at: float


Fact = JobSubmitted | JobChanged | JobRequeued | AllocationMade | AllocationEnded | DeviceCordoned | DeviceUncordoned


@dataclass(frozen=True, slots=True)
class NodeObserved:
    """A node's inventory as discovered; replaces what was known of the node of that name."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A node left the cluster."""

    name: str


@dataclass(frozen=True, slots=True)
class SilenceObserved:
    """A node does not answer, or is not yet ready again; None: it is ready."""

    node: str
    silence: Silence | None


@dataclass(frozen=True, slots=True)
class ConditionObserved:
    """What telemetry now says of a device. Its `cordoned` is ignored: cordons are facts."""

    condition: DeviceCondition


@dataclass(frozen=True, slots=True)
class StartsPromised:
    """What the last plan reserved for whom; replaces what was promised before."""

    reservations: tuple[Reserve, ...]


@dataclass(frozen=True, slots=True)
class SiteArranged:
    """How the site has set up its queues, projects, pools and limits; replaces how it was."""

    queues: tuple[Queue, ...] = ()
    projects: tuple[Project, ...] = ()
    pools: tuple[Pool, ...] = ()
    limits: Limits = field(default_factory=Limits)


Observation = NodeObserved | NodeGone | SilenceObserved | ConditionObserved | StartsPromised | SiteArranged

Delta = Fact | Observation
