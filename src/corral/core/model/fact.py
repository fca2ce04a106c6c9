"""Facts and observations, which both advance a `View`. Facts are on disk; observations are measured and may be lost.

A journal entry is a fact; folding the journal from the start gives the ledger's tables again.

Each new fact about jobs, nodes or devices is a class here; a fact of a feature is in the feature's folder. The journal
stores its fields (`corral.wire` encodes them). `apply` changes a view. `about` and `subject` say what else the ledger
must write beside the entry.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from corral.core.model.devices.device import DeviceCondition, Node, NodeCordon, Silence
from corral.core.model.devices.health import DeviceHealth
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.job_patch import JobPatch, patched
from corral.core.model.jobs.job_update import SpecPatch, may_start_later, with_changes
from corral.core.model.jobs.site_faults import UserFaults
from corral.core.model.placing.allocation import Allocation, Promise
from corral.core.model.queues.queue import Limits, Pool, Project, Queue
from corral.core.model.runs.attempt import MemberEnd
from corral.core.model.runs.prediction import PastOfUsers

if TYPE_CHECKING:
    from corral.core.model.view import ViewDraft


class ServerPart(StrEnum):
    """The parts of a server that cause facts by themselves. Their names have a colon, which no user name has."""

    SCHEDULER = "corral:scheduler"
    DISPATCHER = "corral:dispatcher"
    RECOVERY = "corral:recovery"
    MEMORY_GUARD = "corral:memory-guard"
    MPS_WATCH = "corral:mps-watch"
    IDLE_RECLAIM = "corral:idle-reclaim"
    HUB = "corral:hub"
    NODE_DRAIN = "corral:node-drain"
    HEALTH_WATCH = "corral:health-watch"
    DEVICE_EXCHANGE = "corral:device-exchange"
    ABSENT_CLIENTS = "corral:absent-clients"
    NOTIFICATIONS = "corral:notifications"
    ALERTS = "corral:alerts"
    POD_BINDER = "corral:pod-binder"
    TUNER = "corral:tuner"
    SIMULATOR = "corral:simulator"
    UNRECORDED = "corral:unrecorded"
    """The author of facts in earlier journals, which did not record the author."""


class Delta:
    """One step of a view, or of the slice of a feature: a fact or an observation."""

    __slots__ = ()

    def apply(self, draft: "ViewDraft") -> None:
        """Apply this step to the view. The default does nothing.

        Raises KeyError if the step is about something that the view does not have.
        """


_facts: dict[str, type["Fact"]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact(Delta):
    """An event that is written to the journal under the name of its class. That name must never change.

    Attributes:
        at: when, by the server's clock, in Unix seconds.
        by: the author: a user, or one of `ServerPart`.
    """

    at: float
    by: str

    def __init_subclass__(cls) -> None:
        # This runs twice for a class with slots: the last class is the one that exists in the end.
        _facts[cls.__name__] = cls

    @property
    def about(self) -> str | None:
        """The id of the job that it concerns, None if it concerns none."""
        return None

    @property
    def subject(self) -> str | None:
        """The subject that this fact settles until the next fact of that subject.

        None if jobs or allocations have the result. A server that starts applies the last fact of each subject again.
        """
        return None

    @property
    def closes(self) -> bool:
        """Whether the subject ends with this fact: then a server that starts has nothing to apply for it."""
        return False


class UnknownFact(KeyError):
    """No class of facts has this name."""


def fact_class(name: str) -> type[Fact]:
    """The class of the facts with this name in the journal. Raises UnknownFact if there is none."""
    try:
        return _facts[name]
    except KeyError as error:
        raise UnknownFact(name) from error


@dataclass(frozen=True, slots=True)
class JobSubmitted(Fact):
    """A job was accepted."""

    job: Job

    @property
    def about(self) -> str:
        """The job's id."""
        return self.job.id

    def apply(self, draft: "ViewDraft") -> None:
        """Add the job to its queue."""
        draft.set_job(self.job)


@dataclass(frozen=True, slots=True)
class JobChanged(Fact):
    """Fields of a job took new values."""

    job_id: str
    changes: JobPatch

    @property
    def about(self) -> str:
        """The job's id."""
        return self.job_id

    def apply(self, draft: "ViewDraft") -> None:
        """Give the job's fields these values."""
        draft.set_job(patched(draft.view.jobs[self.job_id], self.changes))


@dataclass(frozen=True, slots=True)
class JobUpdated(Fact):
    """A job that had not ended got another priority, time limit, name or queue. `before` has the earlier values."""

    job_id: str
    changes: SpecPatch
    before: SpecPatch

    @property
    def about(self) -> str:
        """The job's id."""
        return self.job_id

    def apply(self, draft: "ViewDraft") -> None:
        """Give the spec the new values; the job keeps its time of submission. A promise that no longer holds ends."""
        job = draft.view.jobs[self.job_id]
        draft.set_job(replace(job, spec=with_changes(job.spec, self.changes)))
        if self.job_id in draft.view.promises and may_start_later(self.before, self.changes):
            draft.drop("promises", self.job_id)


@dataclass(frozen=True, slots=True)
class JobRequeued(Fact):
    """A job that had ended went back to its queue; `job` is its new state, PENDING."""

    job: Job

    @property
    def about(self) -> str:
        """The job's id."""
        return self.job.id

    def apply(self, draft: "ViewDraft") -> None:
        """Return the job to its queue."""
        draft.set_job(self.job)


@dataclass(frozen=True, slots=True)
class CommandExecuted(Fact):
    """A user ran a command inside a job; it may have failed to start.

    Attributes:
        job_id: the running job.
        command: its words, as for a shell, cut if they are long; "" for a shell.
        rank: of the member in which it ran.
    """

    job_id: str
    command: str
    rank: int = 0

    @property
    def about(self) -> str:
        """The job's id."""
        return self.job_id


@dataclass(frozen=True, slots=True)
class AllocationMade(Fact):
    """Devices were given to a job."""

    allocation: Allocation

    @property
    def about(self) -> str:
        """The id of the job that got the devices."""
        return self.allocation.job_id

    def apply(self, draft: "ViewDraft") -> None:
        """Mark the devices as used."""
        draft.allocate(self.allocation)


@dataclass(frozen=True, slots=True)
class AllocationEnded(Fact):
    """The devices of an allocation became free.

    Attributes:
        lost_from: work from this time on is lost, because the job made room or moved off; None: nothing is
            lost.
        saved_at: when its last whole checkpoint was named, None if none is known.
        members: how each member of a gang ended, by rank; () for a job without a gang, or if it was not recorded.
        unbilled_from: the time from this on counts as nobody's use, because a device fell sick; None: all counts.
    """

    allocation_id: str
    job_id: str
    lost_from: float | None = None
    members: tuple[MemberEnd, ...] = ()
    saved_at: float | None = None
    unbilled_from: float | None = None

    @property
    def about(self) -> str:
        """The id of the job that had the devices."""
        return self.job_id

    def apply(self, draft: "ViewDraft") -> None:
        """Mark the devices as free."""
        draft.free(self.allocation_id, self.at, self.unbilled_from)


@dataclass(frozen=True, slots=True)
class DevicesExchanged(Fact):
    """A live allocation has other devices: its cluster gave it others than were chosen, or tells now which it has.

    Attributes:
        allocation: the allocation from now on. Only devices differ from before: it has as many, of the same shares.
        rank: of the member whose devices were exchanged.
    """

    allocation: Allocation
    rank: int = 0

    @property
    def about(self) -> str:
        """The id of the job that has the devices."""
        return self.allocation.job_id

    def apply(self, draft: "ViewDraft") -> None:
        """Free the devices that it had, and mark the others as used."""
        draft.exchange(self.allocation)


@dataclass(frozen=True, slots=True)
class DeviceCordoned(Fact):
    """An administrator cordoned a device: nothing new starts on it."""

    uuid: str
    reason: str

    @property
    def subject(self) -> str:
        """The cordon of the device, which this fact settles."""
        return f"cordon of device {self.uuid}"

    def apply(self, draft: "ViewDraft") -> None:
        """Cordon the device in the view."""
        draft.cordon_device(self.uuid, self.reason)


@dataclass(frozen=True, slots=True)
class DeviceUncordoned(Fact):
    """An administrator gave a device back."""

    uuid: str

    @property
    def subject(self) -> str:
        """The cordon of the device, which this fact settles."""
        return f"cordon of device {self.uuid}"

    def apply(self, draft: "ViewDraft") -> None:
        """Lift the device's cordon in the view."""
        draft.cordon_device(self.uuid, None)


@dataclass(frozen=True, slots=True)
class DeviceHealthChanged(Fact):
    """The health of a device changed, by its signs, a test of it, or an administrator.

    Attributes:
        uuid: the device.
        health: its health from now on.
        evidence: the signs behind the change, each in a sentence, the oldest first.
    """

    uuid: str
    health: DeviceHealth
    evidence: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """The health of the device, which this fact settles."""
        return f"health of device {self.uuid}"

    @property
    def closes(self) -> bool:
        """Whether the device is healthy, and its earlier faults are forgotten."""
        return self.health.is_forgotten

    def apply(self, draft: "ViewDraft") -> None:
        """Set the device's health in the view."""
        draft.set_health(self.uuid, self.health)


@dataclass(frozen=True, slots=True)
class UserFaultsCounted(Fact):
    """A device fell sick during a job of a user, or an administrator trusts the user again.

    Attributes:
        user: whose job it was.
        incidents: the node and the time of each fault that counts, the oldest first; () is none any more.
        last: the last fault, a sentence without its full stop.
    """

    user: str
    incidents: tuple[tuple[str, float], ...]
    last: str

    @property
    def subject(self) -> str:
        """The faults of the user, which this fact settles."""
        return f"faults of user {self.user}"

    @property
    def closes(self) -> bool:
        """Whether no fault counts any more."""
        return not self.incidents

    def apply(self, draft: "ViewDraft") -> None:
        """Set the faults of the user in the view."""
        if self.incidents:
            draft.put("faults", self.user, UserFaults(self.incidents, self.last))
        else:
            draft.drop("faults", self.user)


@dataclass(frozen=True, slots=True)
class NodeCordoned(Fact):
    """An administrator cordoned a node: nothing new starts on it, and what runs there goes on."""

    node: str
    reason: str = ""

    @property
    def subject(self) -> str:
        """The cordon of the node, which this fact settles."""
        return f"cordon of node {self.node}"

    def apply(self, draft: "ViewDraft") -> None:
        """Cordon the node in the view."""
        draft.put("node_cordons", self.node, NodeCordon(self.reason, self.by, self.at))


@dataclass(frozen=True, slots=True)
class NodeDraining(Fact):
    """An administrator empties a node: nothing new starts on it, and at the deadline what still runs is requeued."""

    node: str
    reason: str = ""
    deadline: float | None = None

    @property
    def subject(self) -> str:
        """The cordon of the node, which this fact settles."""
        return f"cordon of node {self.node}"

    def apply(self, draft: "ViewDraft") -> None:
        """Cordon the node. It stays cordoned after it is empty, until it is uncordoned."""
        cordon = NodeCordon(self.reason, self.by, self.at, draining=True, deadline=self.deadline)
        draft.put("node_cordons", self.node, cordon)


@dataclass(frozen=True, slots=True)
class NodeUncordoned(Fact):
    """An administrator gave a node back."""

    node: str

    @property
    def subject(self) -> str:
        """The cordon of the node, which this fact settles."""
        return f"cordon of node {self.node}"

    def apply(self, draft: "ViewDraft") -> None:
        """Lift the node's cordon in the view."""
        draft.drop("node_cordons", self.node)


class Observation(Delta):
    """A measurement or a part of the configuration. It is not written to disk."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class NodeObserved(Observation):
    """A node's inventory as discovered; it replaces the earlier inventory of the node of that name."""

    node: Node

    def apply(self, draft: "ViewDraft") -> None:
        """Set the node to this inventory."""
        draft.set_node(self.node.name, self.node)


@dataclass(frozen=True, slots=True)
class NodeRemoved(Observation):
    """A node left the cluster."""

    name: str

    def apply(self, draft: "ViewDraft") -> None:
        """Remove the node."""
        draft.set_node(self.name, None)
        draft.drop("silences", self.name)
        draft.drop("barred", self.name)


@dataclass(frozen=True, slots=True)
class SilenceObserved(Observation):
    """A node does not answer, or is not ready yet after its return. With `silence` None the node is ready."""

    node: str
    silence: Silence | None

    def apply(self, draft: "ViewDraft") -> None:
        """Record that nothing starts on the node, or that the node is ready if `silence` is None."""
        if self.silence is None:
            draft.drop("silences", self.node)
        else:
            draft.put("silences", self.node, self.silence)


@dataclass(frozen=True, slots=True)
class UsersBarred(Observation):
    """The users whose jobs cannot run on a node, and why: sentences without their full stop. Replaces earlier ones."""

    node: str
    reasons: Mapping[str, str]

    def apply(self, draft: "ViewDraft") -> None:
        """Set the users that are barred from the node."""
        if self.reasons:
            draft.put("barred", self.node, self.reasons)
        else:
            draft.drop("barred", self.node)


@dataclass(frozen=True, slots=True)
class ConditionObserved(Observation):
    """The present condition of a device by telemetry. Its `cordoned` and `health` are ignored: both are facts."""

    condition: DeviceCondition

    def apply(self, draft: "ViewDraft") -> None:
        """Set the condition of the device; its cordon and its health stay as they were."""
        condition, view = self.condition, draft.view
        cordoned, health = view.cordons.get(condition.uuid), view.health.get(condition.uuid)
        if condition.cordoned != cordoned or condition.health != health:
            condition = replace(condition, cordoned=cordoned, health=health)
        draft.put("conditions", condition.uuid, condition)


@dataclass(frozen=True, slots=True)
class CheckpointsObserved(Observation):
    """The times at which the last whole checkpoints of running jobs were named, by allocation id; None: there is none.

    What is said of an allocation that is over changes nothing.
    """

    saved: Mapping[str, float | None]

    def apply(self, draft: "ViewDraft") -> None:
        """Set these times."""
        for allocation_id, at in self.saved.items():
            if at is None:
                draft.drop("saved", allocation_id)
            elif allocation_id in draft.view.allocations:
                draft.put("saved", allocation_id, at)


@dataclass(frozen=True, slots=True)
class StartsPromised(Observation):
    """The promises of the last plan; they replace all earlier ones."""

    promises: tuple[Promise, ...]

    def apply(self, draft: "ViewDraft") -> None:
        """Replace all promises."""
        draft.amend(promises={one.job_id: one for one in self.promises})


@dataclass(frozen=True, slots=True)
class MovesAllowed(Observation):
    """The scheduler may move running jobs until this time (Unix seconds)."""

    until: float

    def apply(self, draft: "ViewDraft") -> None:
        """Set the time."""
        draft.amend(moves_until=self.until)


@dataclass(frozen=True, slots=True)
class MemoryPeaksObserved(Observation):
    """The most memory in MiB that packable jobs used, by user and program; it replaces what was observed earlier."""

    peaks: PastOfUsers

    def apply(self, draft: "ViewDraft") -> None:
        """Replace all that was observed."""
        draft.amend(memory_peaks=self.peaks)


@dataclass(frozen=True, slots=True)
class SiteArranged(Observation):
    """The site's configuration of queues, projects, pools and limits; it replaces the earlier one."""

    queues: tuple[Queue, ...] = ()
    projects: tuple[Project, ...] = ()
    pools: tuple[Pool, ...] = ()
    limits: Limits = field(default_factory=Limits)

    def apply(self, draft: "ViewDraft") -> None:
        """Replace the site's configuration."""
        draft.amend(
            queues={queue.name: queue for queue in self.queues},
            projects={project.name: project for project in self.projects},
            limits=self.limits,
        )
        draft.set_pools({pool.name: pool for pool in self.pools})
