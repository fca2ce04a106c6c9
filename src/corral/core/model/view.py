"""The view: the cluster at one version, an immutable value. It has the data for decisions about jobs.

Jobs that have ended and measurements over time are not in it: they are in the ledger and in the history. Features keep
their data in slices of their own (`corral.core.model.slice`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from corral.core.model.devices.device import (
    MEMORY_WEIGHT,
    Device,
    DeviceCondition,
    Node,
    NodeCordon,
    NodeStatus,
    Silence,
)
from corral.core.model.devices.set_apart import SetApart, set_apart
from corral.core.model.draft import DraftOf
from corral.core.model.fact import Delta
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, Placement, Promise
from corral.core.model.queues.queue import Limits, Pool, Project, Queue
from corral.core.model.runs.decayed_usage import DecayedUsage
from corral.core.model.runs.prediction import PastOfUsers, groups_of, remember
from corral.core.model.runs.run_history import PastRun, Spent, spend

EMPTY: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True)
class View:
    """The cluster: nodes, device conditions, jobs that have not ended, allocations, and the holders of each device.

    Attributes:
        version: grows with every delta; equal versions on one server are equal views.
        nodes: by name.
        silences: why nothing starts on a node that does not answer, by node name; also for nodes that never answered.
        node_cordons: by node name. Nothing starts on a node with a cordon. A cordon stays while its node is not in the
            cluster.
        conditions: by device UUID. A device without a condition has not been sampled yet, and is not allocated.
        cordons: reason by device UUID.
        jobs: by id. A job that ended stays here until the view after its end is published.
        allocations: by id.
        holders: ids of the allocations on a device, in the order of arrival, by device UUID; free devices are absent.
        residents: ids of the allocations on a node, in the order of arrival, by node name; free nodes are absent.
        dependants: ids of waiting jobs, as the keys of a mapping, by the id of the job they wait for.
        queues, projects, pools: by name; `limits` are those of the site and of each user.
        set_apart: UUIDs of the devices of each pool, by its name and by node; it follows the nodes and pools.
        usage: decayed GPU-seconds by (project, user); `usage_half_life_s` is their half-life.
        spent: GPU-seconds by the hour, by ("user" | "project" | "queue", name).
        served: GPU-seconds that an active job got in earlier attempts, by job id.
        promises: the reservations of the last plan, by job id; a plan with conservative backfill keeps all of them.
        availability_memory_weight: the weight of free memory in the availability of a device; the rest is for idle
            time.
        given: UUIDs of the devices that were allocated last on each node, by node; the most recently used node comes
            last.
        durations: the last run times in seconds of each user's jobs that succeeded.
    """

    version: int = 0
    nodes: Mapping[str, Node] = field(default_factory=lambda: EMPTY)
    node_cordons: Mapping[str, NodeCordon] = field(default_factory=lambda: EMPTY)
    silences: Mapping[str, Silence] = field(default_factory=lambda: EMPTY)
    conditions: Mapping[str, DeviceCondition] = field(default_factory=lambda: EMPTY)
    cordons: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    jobs: Mapping[str, Job] = field(default_factory=lambda: EMPTY)
    allocations: Mapping[str, Allocation] = field(default_factory=lambda: EMPTY)
    holders: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: EMPTY)
    residents: Mapping[str, Mapping[str, None]] = field(default_factory=lambda: EMPTY)
    dependants: Mapping[str, Mapping[str, None]] = field(default_factory=lambda: EMPTY)
    queues: Mapping[str, Queue] = field(default_factory=lambda: EMPTY)
    projects: Mapping[str, Project] = field(default_factory=lambda: EMPTY)
    pools: Mapping[str, Pool] = field(default_factory=lambda: EMPTY)
    set_apart: SetApart = field(default_factory=lambda: EMPTY)
    limits: Limits = field(default_factory=Limits)
    usage: Mapping[tuple[str, str], DecayedUsage] = field(default_factory=lambda: EMPTY)
    spent: Mapping[tuple[str, str], Spent] = field(default_factory=lambda: EMPTY)
    served: Mapping[str, float] = field(default_factory=lambda: EMPTY)
    durations: PastOfUsers = field(default_factory=lambda: EMPTY)
    given: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: EMPTY)
    promises: Mapping[str, Promise] = field(default_factory=lambda: EMPTY)
    usage_half_life_s: float = 7 * 86400.0
    availability_memory_weight: float = MEMORY_WEIGHT

    def advance(self, deltas: Iterable[Delta]) -> "View":
        """The view after `deltas`; this one does not change."""
        draft = ViewDraft(self)
        draft.apply(deltas)
        return draft.freeze()

    def remembering(self, runs: Iterable[PastRun], given: Iterable[Placement] = ()) -> "View":
        """The view with its history: `runs` in the order of their ends, `given` the last placements, in order."""
        draft = ViewDraft(self)
        for placement in given:
            draft.gave(placement)
        for run in runs:
            draft.remember(run)
        return draft.freeze()

    def device(self, uuid: str) -> tuple[Node, Device] | None:
        """The node and the device of this UUID, None if there is none."""
        for node in self.nodes.values():
            for device in node.devices:
                if device.uuid == uuid:
                    return node, device
        return None

    def device_names(self) -> dict[str, str]:
        """The name of each device in a sentence, by UUID: "GPU 3", or with several nodes "GPU gpu-07:3"."""
        several = len(self.nodes) > 1
        return {
            device.uuid: f"GPU {name}:{device.index}" if several else f"GPU {device.index}"
            for name, node in self.nodes.items()
            for device in node.devices
        }

    def status(self, node: str) -> NodeStatus:
        """The status of this node: whether anything may start there, and if not, why."""
        silence = self.silences.get(node)
        if silence is not None:
            return NodeStatus.GONE if silence.gone else NodeStatus.SILENT
        cordon = self.node_cordons.get(node)
        if cordon is None:
            return NodeStatus.READY if self.cluster_cordon(node) is None else NodeStatus.CORDONED
        return NodeStatus.DRAINING if cordon.draining and self.residents.get(node) else NodeStatus.CORDONED

    def cluster_cordon(self, node: str) -> str | None:
        """The reason why the node's cluster starts nothing on it; None if it does, or if there is no such cluster."""
        known = self.nodes.get(node)
        return None if known is None else known.cordoned

    def unanswering(self, node: str) -> str | None:
        """The reason why requests are not sent to a node, a sentence without its full stop; None if the node
        answers.
        """
        silence = self.silences.get(node)
        return None if silence is None or silence.answers else silence.reason

    def allocated_milli(self, uuid: str) -> int:
        """Milli-GPU of the device that is allocated."""
        return sum(
            grant.share_milli
            for allocation_id in self.holders.get(uuid, ())
            for grant in self.allocations[allocation_id].placement.grants
            if grant.uuid == uuid
        )

    def allocated_mib(self, uuid: str) -> int:
        """The MiB of the device that are explicitly granted (grants without an amount of memory count 0)."""
        return sum(
            grant.memory_mib or 0
            for allocation_id in self.holders.get(uuid, ())
            for grant in self.allocations[allocation_id].placement.grants
            if grant.uuid == uuid
        )

    def tenant(self, uuid: str) -> str | None:
        """The user whom this one-user device serves now; None if there is none, or if it serves any user."""
        for allocation_id in self.holders.get(uuid, ()):
            for grant in self.allocations[allocation_id].placement.grants:
                if grant.uuid == uuid and grant.tenant is not None:
                    return grant.tenant
        return None


class ViewDraft(DraftOf[View]):
    """A draft of a view; `view`, the view so far, is its `value`.

    After nodes came, changed or left, the devices of pools are assigned once for all of these nodes, before anyone
    reads the view.
    """

    def __init__(self, base: View) -> None:
        super().__init__(base)
        self.view = self.value
        self._owned_ids: dict[tuple[str, str], dict[str, None]] = {}
        self._ended: list[str] = []
        self._uncut: set[str] = set()

    def apply(self, deltas: Iterable[Delta]) -> None:
        """Advance by each delta in turn. A fact about something unknown is a broken invariant and raises KeyError."""
        try:
            self.apply_uncut(deltas)
        finally:
            self.cut_pools()

    def apply_uncut(self, deltas: Iterable[Delta]) -> None:
        """Advance by each delta in turn, without `cut_pools`. Call `cut_pools` or `freeze` before anyone reads `view`.

        Raises KeyError as `apply` does.
        """
        count = 0
        for delta in deltas:
            delta.apply(self)
            count += 1
        if count:
            self.amend(version=self.view.version + count)

    def cut_pools(self) -> None:
        """Assign devices to pools for the nodes that came, changed or left."""
        if self._uncut:
            view = self.view
            self.amend(set_apart=set_apart(view.pools, view.nodes, view.set_apart, changed=self._uncut))
            self._uncut = set()

    def freeze(self) -> View:
        """The finished view, without the jobs that ended."""
        self.cut_pools()
        self.forget_ended()
        self._owned_ids = {}
        return super().freeze()

    def forget_ended(self) -> None:
        """Drop the jobs that ended. For a draft that is never frozen."""
        jobs = self._own("jobs") if self._ended else {}
        for job_id in self._ended:
            if job_id in jobs and jobs[job_id].phase.terminal:
                for parent in jobs.pop(job_id).waits_for:
                    self._drop_id("dependants", parent, job_id)
                if job_id in self.view.served:
                    del self._own("served")[job_id]
        self._ended = []

    def set_job(self, job: Job) -> None:
        """Add a job, or replace it by this newer state."""
        before = self.view.jobs.get(job.id)
        self._own("jobs")[job.id] = job
        waited_for = () if before is None else before.waits_for
        if waited_for != job.waits_for:
            self._depend_on(job, waited_for)
        if job.phase.terminal:
            self._ended.append(job.id)
            self._remember_duration(job)

    def allocate(self, allocation: Allocation) -> None:
        """Give the allocation's devices, and its parts of nodes, to its job."""
        self._own("allocations")[allocation.id] = allocation
        for uuid in allocation.placement.uuids:
            self._hold(uuid, allocation.id)
        for member in allocation.placement.members:
            self._own_ids("residents", member.node)[allocation.id] = None
        self.gave(allocation.placement)

    def free(self, allocation_id: str, at: float) -> None:
        """Free the devices of an allocation at `at` (Unix seconds). Raises KeyError if there is no such allocation."""
        allocation = self._own("allocations").pop(allocation_id)
        self._account(allocation, at)
        for uuid in allocation.placement.uuids:
            self._let_go(uuid, allocation_id)
        for member in allocation.placement.members:
            self._drop_id("residents", member.node, allocation_id)

    def cordon_device(self, uuid: str, reason: str | None) -> None:
        """Cordon the device for this reason, or uncordon it (None)."""
        if reason is None:
            self.drop("cordons", uuid)
        else:
            self.put("cordons", uuid, reason)
        condition = self.view.conditions.get(uuid)
        if condition is not None:
            self.put("conditions", uuid, replace(condition, cordoned=reason))

    def set_node(self, name: str, node: Node | None) -> None:
        """Set a node, or remove it (None). `cut_pools` updates the pools afterwards."""
        before = self.view.nodes.get(name)
        if node is None:
            self.drop("nodes", name)
        else:
            self.put("nodes", name, node)
        unchanged = node is not None and before is not None and node.devices == before.devices
        if self.view.pools and not unchanged:
            self._uncut.add(name)

    def set_pools(self, pools: Mapping[str, Pool]) -> None:
        """Set the pools, for present and future nodes."""
        self.amend(pools=pools, set_apart=set_apart(pools, self.view.nodes))
        self._uncut = set()

    def _depend_on(self, job: Job, waited_for: tuple[str, ...]) -> None:
        # Sets, because a job may depend on an array of a hundred thousand, and this runs at the end of each element.
        then, now = frozenset(waited_for), frozenset(job.waits_for)
        for parent in waited_for:
            if parent not in now:
                self._drop_id("dependants", parent, job.id)
        for parent in job.waits_for:
            if parent not in then:
                self._own_ids("dependants", parent)[job.id] = None

    def _own_ids(self, name: str, key: str) -> dict[str, None]:
        # Copied once per batch, like the mapping around it: tens of thousands of jobs may depend on one job.
        owned = self._owned_ids.get((name, key))
        if owned is None:
            owned = self._owned_ids[name, key] = dict(getattr(self.view, name).get(key, ()))
            self._own(name)[key] = owned
        return owned

    def _drop_id(self, name: str, key: str, one: str) -> None:
        if one in getattr(self.view, name).get(key, ()):
            left = self._own_ids(name, key)
            del left[one]
            if not left:
                del self._owned_ids[name, key], self._own(name)[key]

    def gave(self, placement: Placement) -> None:
        """Record these devices as the last that were allocated on their nodes."""
        given = self._own("given")
        for member in placement.members:
            before = given.pop(member.node, ())
            given[member.node] = tuple(grant.uuid for grant in member.grants) or before

    def remember(self, run: PastRun) -> None:
        """Add a run that has ended to the history: the usage, and how long it took."""
        if run.gpu_s:
            usage = self.view.usage.get((run.project, run.user), DecayedUsage())
            used = usage.plus(run.gpu_s, run.ended_at, self.view.usage_half_life_s)
            self._own("usage")[run.project, run.user] = used
            for scope in (("user", run.user), ("project", run.project), ("queue", run.queue)):
                self._own("spent")[scope] = spend(self.view.spent.get(scope, ()), run.ended_at, run.gpu_s)
        if run.gpu_s and run.job_id is not None and run.job_id in self.view.jobs:
            self._own("served")[run.job_id] = self.view.served.get(run.job_id, 0.0) + run.gpu_s
        if run.ran_s is not None:
            remember(self._own("durations"), run.user, run.groups, run.ran_s)

    def _remember_duration(self, job: Job) -> None:
        if job.phase is Phase.SUCCEEDED and job.started_at is not None and job.ended_at is not None:
            spec, ran_s = job.spec, max(0.0, job.ended_at - job.started_at)
            self.remember(
                PastRun(spec.user, spec.project, spec.queue, groups_of(spec), 0.0, job.started_at, job.ended_at, ran_s)
            )

    def _account(self, allocation: Allocation, at: float) -> None:
        job = self.view.jobs.get(allocation.job_id)
        if job is None or not allocation.gpus:
            return
        spec = job.spec
        since, gpus = allocation.created_at, allocation.gpus
        self.remember(PastRun(spec.user, spec.project, spec.queue, (), gpus, since, at, job_id=job.id))

    def _hold(self, uuid: str, allocation_id: str) -> None:
        holders = self._own("holders")
        if allocation_id not in holders.get(uuid, ()):
            holders[uuid] = (*holders.get(uuid, ()), allocation_id)

    def _let_go(self, uuid: str, allocation_id: str) -> None:
        holders = self._own("holders")
        left = tuple(other for other in holders.get(uuid, ()) if other != allocation_id)
        if left:
            holders[uuid] = left
        else:
            holders.pop(uuid, None)
