"""Facts: what happened and is on disk. Observations: what was measured and may be lost. Both advance a `View`.

A journal entry is a fact; folding the journal from the start gives the ledger's tables again.

A new fact about jobs, nodes or devices is one class here, one of a feature is in its folder. Its fields are what the
journal keeps (`corral.wire` encodes them), `apply` is what it does to a view, `about` and `subject` are what the ledger
has to write beside the entry.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from corral.core.model.devices.device import DeviceCondition, Node, NodeCordon, Silence
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.job_patch import JobPatch, patched
from corral.core.model.jobs.job_update import SpecPatch, may_start_later, with_changes
from corral.core.model.placing.allocation import Allocation, Promise
from corral.core.model.queues.queue import Limits, Pool, Project, Queue
from corral.core.model.runs.attempt import MemberEnd

if TYPE_CHECKING:
    from corral.core.model.view import ViewDraft


class ServerPart(StrEnum):
    """The parts of a server that cause facts by themselves. No account of a user has a colon in its name."""

    SCHEDULER = "corral:scheduler"
    DISPATCHER = "corral:dispatcher"
    RECOVERY = "corral:recovery"
    MEMORY_GUARD = "corral:memory-guard"
    MPS_WATCH = "corral:mps-watch"
    IDLE_RECLAIM = "corral:idle-reclaim"
    HUB = "corral:hub"
    NODE_DRAIN = "corral:node-drain"
    ABSENT_CLIENTS = "corral:absent-clients"
    NOTIFICATIONS = "corral:notifications"
    ALERTS = "corral:alerts"
    POD_BINDER = "corral:pod-binder"
    TUNER = "corral:tuner"
    SIMULATOR = "corral:simulator"
    UNRECORDED = "corral:unrecorded"
    """Who it was, the journal did not say then."""


class Delta:
    """One step of a view, or of the slice of a feature: a fact or an observation."""

    __slots__ = ()

    def apply(self, draft: "ViewDraft") -> None:
        """Do to the view what happened; nothing where the view does not have that.

        Raises KeyError when it is about something that the view does not know.
        """


_facts: dict[str, type["Fact"]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact(Delta):
    """Something that happened and is written to the journal under the name of its class, which never changes.

    Attributes:
        at: when, by the server's clock, in Unix seconds.
        by: who caused it: a user, or one of `ServerPart`.
    """

    at: float
    by: str

    def __init_subclass__(cls) -> None:
        # Called twice for a class with slots: the last one is the class that there is in the end.
        _facts[cls.__name__] = cls

    @property
    def about(self) -> str | None:
        """The id of the job that it concerns, None when it is about none."""
        return None

    @property
    def subject(self) -> str | None:
        """What it settles until the next fact of the same subject, None when that is kept as a job or an allocation.

        A server that starts applies the last fact of each subject again.
        """
        return None

    @property
    def closes(self) -> bool:
        """Whether nothing of its subject is left to be applied when a server starts."""
        return False


def fact_class(name: str) -> type[Fact]:
    """The class of the facts that the journal has under this name. Raises KeyError when there is none."""
    return _facts[name]


@dataclass(frozen=True, slots=True)
class JobSubmitted(Fact):
    """A job was accepted."""

    job: Job

    @property
    def about(self) -> str:
        """The job."""
        return self.job.id

    def apply(self, draft: "ViewDraft") -> None:
        """It is in its queue."""
        draft.set_job(self.job)


@dataclass(frozen=True, slots=True)
class JobChanged(Fact):
    """Fields of a job took new values."""

    job_id: str
    changes: JobPatch

    @property
    def about(self) -> str:
        """The job."""
        return self.job_id

    def apply(self, draft: "ViewDraft") -> None:
        """Its fields have these values."""
        draft.set_job(patched(draft.view.jobs[self.job_id], self.changes))


@dataclass(frozen=True, slots=True)
class JobUpdated(Fact):
    """Somebody gave a job that had not ended another priority, time limit, name or queue; `before` is what it had."""

    job_id: str
    changes: SpecPatch
    before: SpecPatch

    @property
    def about(self) -> str:
        """The job."""
        return self.job_id

    def apply(self, draft: "ViewDraft") -> None:
        """It counts as if it had been submitted so, at its own time; a start promised for what it was is not kept."""
        job = draft.view.jobs[self.job_id]
        draft.set_job(replace(job, spec=with_changes(job.spec, self.changes)))
        if self.job_id in draft.view.promises and may_start_later(self.before, self.changes):
            draft.drop("promises", self.job_id)


@dataclass(frozen=True, slots=True)
class JobRequeued(Fact):
    """A job that had ended went back to its queue; `job` is it as it stands now, PENDING."""

    job: Job

    @property
    def about(self) -> str:
        """The job."""
        return self.job.id

    def apply(self, draft: "ViewDraft") -> None:
        """It is in its queue again."""
        draft.set_job(self.job)


@dataclass(frozen=True, slots=True)
class CommandExecuted(Fact):
    """Somebody had a command run inside a job; it may have failed to start.

    Attributes:
        job_id: the running job.
        command: its words, as for a shell, cut where they are many; "" for a shell.
        rank: of the member in which it ran.
    """

    job_id: str
    command: str
    rank: int = 0

    @property
    def about(self) -> str:
        """The job."""
        return self.job_id


@dataclass(frozen=True, slots=True)
class AllocationMade(Fact):
    """Devices were given to a job."""

    allocation: Allocation

    @property
    def about(self) -> str:
        """The job that got them."""
        return self.allocation.job_id

    def apply(self, draft: "ViewDraft") -> None:
        """They are in use."""
        draft.allocate(self.allocation)


@dataclass(frozen=True, slots=True)
class AllocationEnded(Fact):
    """Devices came back.

    Attributes:
        lost_from: what was done on them from then on is lost, as the job made room; None: nothing is.
        members: how each member of a gang ended, by rank; () of what is no gang, and where it was not recorded.
    """

    allocation_id: str
    job_id: str
    lost_from: float | None = None
    members: tuple[MemberEnd, ...] = ()

    @property
    def about(self) -> str:
        """The job that had them."""
        return self.job_id

    def apply(self, draft: "ViewDraft") -> None:
        """They are free."""
        draft.free(self.allocation_id, self.at)


@dataclass(frozen=True, slots=True)
class DeviceCordoned(Fact):
    """An administrator cordoned a device: nothing new starts on it."""

    uuid: str
    reason: str

    @property
    def subject(self) -> str:
        """Whether the device is cordoned."""
        return f"cordon of device {self.uuid}"

    def apply(self, draft: "ViewDraft") -> None:
        """It is cordoned."""
        draft.cordon_device(self.uuid, self.reason)


@dataclass(frozen=True, slots=True)
class DeviceUncordoned(Fact):
    """An administrator gave a device back."""

    uuid: str

    @property
    def subject(self) -> str:
        """Whether the device is cordoned."""
        return f"cordon of device {self.uuid}"

    def apply(self, draft: "ViewDraft") -> None:
        """It is no longer cordoned."""
        draft.cordon_device(self.uuid, None)


@dataclass(frozen=True, slots=True)
class NodeCordoned(Fact):
    """An administrator cordoned a node: nothing new starts on it, and what runs there goes on."""

    node: str
    reason: str = ""

    @property
    def subject(self) -> str:
        """Whether the node is cordoned."""
        return f"cordon of node {self.node}"

    def apply(self, draft: "ViewDraft") -> None:
        """It is cordoned."""
        draft.put("node_cordons", self.node, NodeCordon(self.reason, self.by, self.at))


@dataclass(frozen=True, slots=True)
class NodeDraining(Fact):
    """An administrator empties a node: nothing new starts on it, and at the deadline what still runs is requeued."""

    node: str
    reason: str = ""
    deadline: float | None = None

    @property
    def subject(self) -> str:
        """Whether the node is cordoned."""
        return f"cordon of node {self.node}"

    def apply(self, draft: "ViewDraft") -> None:
        """It is cordoned until it is uncordoned, also once it is empty."""
        cordon = NodeCordon(self.reason, self.by, self.at, draining=True, deadline=self.deadline)
        draft.put("node_cordons", self.node, cordon)


@dataclass(frozen=True, slots=True)
class NodeUncordoned(Fact):
    """An administrator gave a node back."""

    node: str

    @property
    def subject(self) -> str:
        """Whether the node is cordoned."""
        return f"cordon of node {self.node}"

    def apply(self, draft: "ViewDraft") -> None:
        """It is no longer cordoned."""
        draft.drop("node_cordons", self.node)


class Observation(Delta):
    """Something that was measured or is configured. It is not written."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class NodeObserved(Observation):
    """A node's inventory as discovered; replaces what was known of the node of that name."""

    node: Node

    def apply(self, draft: "ViewDraft") -> None:
        """The node is as it was found."""
        draft.set_node(self.node.name, self.node)


@dataclass(frozen=True, slots=True)
class NodeRemoved(Observation):
    """A node left the cluster."""

    name: str

    def apply(self, draft: "ViewDraft") -> None:
        """It is not there."""
        draft.set_node(self.name, None)
        draft.drop("silences", self.name)


@dataclass(frozen=True, slots=True)
class SilenceObserved(Observation):
    """A node does not answer, or is not yet ready again; None: it is ready."""

    node: str
    silence: Silence | None

    def apply(self, draft: "ViewDraft") -> None:
        """Nothing starts on the node, or it is like any other."""
        if self.silence is None:
            draft.drop("silences", self.node)
        else:
            draft.put("silences", self.node, self.silence)


@dataclass(frozen=True, slots=True)
class ConditionObserved(Observation):
    """What telemetry now says of a device. Its `cordoned` is ignored: cordons are facts."""

    condition: DeviceCondition

    def apply(self, draft: "ViewDraft") -> None:
        """The device is in this condition, and cordoned or not as before."""
        condition, cordoned = self.condition, draft.view.cordons.get(self.condition.uuid)
        if condition.cordoned != cordoned:
            condition = replace(condition, cordoned=cordoned)
        draft.put("conditions", condition.uuid, condition)


@dataclass(frozen=True, slots=True)
class StartsPromised(Observation):
    """What the last plan promised to whom; replaces what was promised before."""

    promises: tuple[Promise, ...]

    def apply(self, draft: "ViewDraft") -> None:
        """Nothing else is promised."""
        draft.amend(promises={one.job_id: one for one in self.promises})


@dataclass(frozen=True, slots=True)
class SiteArranged(Observation):
    """How the site has set up its queues, projects, pools and limits; replaces how it was."""

    queues: tuple[Queue, ...] = ()
    projects: tuple[Project, ...] = ()
    pools: tuple[Pool, ...] = ()
    limits: Limits = field(default_factory=Limits)

    def apply(self, draft: "ViewDraft") -> None:
        """The site is set up so."""
        draft.amend(
            queues={queue.name: queue for queue in self.queues},
            projects={project.name: project for project in self.projects},
            limits=self.limits,
        )
        draft.set_pools({pool.name: pool for pool in self.pools})
