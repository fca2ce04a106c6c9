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
from corral.core.model.devices.health import DeviceHealth
from corral.core.model.devices.set_apart import SetApart, set_apart
from corral.core.model.draft import DraftOf
from corral.core.model.fact import Delta
from corral.core.model.jobs.job import Job
from corral.core.model.jobs.phase import Phase
from corral.core.model.jobs.site_faults import UserFaults
from corral.core.model.placing.allocation import Allocation, Placement, Promise
from corral.core.model.queues.queue import Limits, Pool, Project, Queue
from corral.core.model.runs.decayed_usage import DecayedUsage
from corral.core.model.runs.packing import PackedAttempt, is_run_time, program_of, shared_by
from corral.core.model.runs.prediction import PastOfUsers, groups_of, remember
from corral.core.model.runs.run_history import PastRun, Spent, spend
from corral.core.model.runs.shared_times import Sharer, beside_s, with_sharing

EMPTY: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True)
class View:
    """The cluster: nodes, device conditions, jobs that have not ended, allocations, and the holders of each device.

    Attributes:
        version: grows with every delta; equal versions on one server are equal views.
        nodes: by name.
        silences: why nothing starts on a node that does not answer, by node name; also for nodes that never answered.
        barred: why no job of a user can run on a node, by node name and user: the user's account there is missing or
            differs. Nodes that take the jobs of all users are absent.
        no_docker: why no container can run on a node, by node name. Nodes on which one can are absent.
        node_cordons: by node name. Nothing starts on a node with a cordon. A cordon stays while its node is not in the
            cluster.
        conditions: by device UUID. A device without a condition has not been sampled yet, and is not allocated.
        cordons: reason by device UUID.
        health: by device UUID; a device that has never shown a sign of a fault is absent.
        faults: faults of devices during the jobs of users, by user; a user without any is absent.
        jobs: by id. A job that ended stays here until the view after its end is published.
        allocations: by id.
        holders: ids of the allocations on a device, in the order in which they were made, by device UUID; free devices
            are absent.
        residents: ids of the allocations on a node, in the order of arrival, by node name; free nodes are absent.
        dependants: ids of waiting jobs, as the keys of a mapping, by the id of the job they wait for.
        queues, projects, pools: by name; `limits` are those of the site and of each user.
        set_apart: UUIDs of the devices of each pool, by its name and by node; it follows the nodes and pools.
        usage: decayed GPU-seconds by (project, user); `usage_half_life_s` is their half-life.
        spent: GPU-seconds by the hour, by ("user" | "project" | "queue", name).
        served: GPU-seconds that an active job got in earlier attempts, by job id.
        saved: when the last whole checkpoint of a running job was named, in Unix seconds, by allocation id; missing if
            there is none, or if it is not known.
        promises: the reservations of the last plan, by job id; a plan with conservative backfill keeps all of them.
        moves_until: the time until which running jobs may be moved, Unix seconds; 0 if they may not.
        availability_memory_weight: the weight of free memory in the availability of a device; the rest is for idle
            time.
        given: UUIDs of the devices that were allocated last on each node, by node; the most recently used node comes
            last.
        durations: the last run times in seconds of each user's jobs that succeeded.
        packed: those of packable jobs, by how many shared the device (`corral.core.model.runs.packing.shared_by`).
        beside_s: the seconds that a packable job's allocation has shared with allocations that have ended, counted for
            each of these, by allocation id; missing if there were none.
        memory_peaks: the most memory in MiB that the last packable jobs of each user used, by program; observed.
    """

    version: int = 0
    nodes: Mapping[str, Node] = field(default_factory=lambda: EMPTY)
    barred: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: EMPTY)
    no_docker: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    node_cordons: Mapping[str, NodeCordon] = field(default_factory=lambda: EMPTY)
    silences: Mapping[str, Silence] = field(default_factory=lambda: EMPTY)
    conditions: Mapping[str, DeviceCondition] = field(default_factory=lambda: EMPTY)
    cordons: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    health: Mapping[str, DeviceHealth] = field(default_factory=lambda: EMPTY)
    faults: Mapping[str, UserFaults] = field(default_factory=lambda: EMPTY)
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
    packed: PastOfUsers = field(default_factory=lambda: EMPTY)
    beside_s: Mapping[str, float] = field(default_factory=lambda: EMPTY)
    memory_peaks: PastOfUsers = field(default_factory=lambda: EMPTY)
    given: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: EMPTY)
    saved: Mapping[str, float] = field(default_factory=lambda: EMPTY)
    promises: Mapping[str, Promise] = field(default_factory=lambda: EMPTY)
    moves_until: float = 0.0
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
        past = list(runs)
        holders = [one for each in self.allocations.values() if (one := _packed_holder(self, each)) is not None]
        for run in with_sharing(past, holders):
            draft.remember(run)
        for holder in holders:
            if shared_s := beside_s(holder, past):
                draft.put("beside_s", holder.allocation_id, shared_s)
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

    def unsaved_since(self, allocation: Allocation) -> float:
        """Since when the work of an allocation is not in a whole checkpoint: at the earliest its begin (Unix
        seconds).
        """
        return max(allocation.created_at, self.saved.get(allocation.id, 0.0))

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
        """Those whom this device serves while jobs are on it, one user or packable jobs; None if it serves anyone."""
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

    def free(self, allocation_id: str, at: float, unbilled_from: float | None = None) -> None:
        """Free the devices of an allocation at `at` (Unix seconds). Raises KeyError if there is no such allocation.

        The time from `unbilled_from` on counts as nobody's use; None counts all of it.
        """
        allocation = self._own("allocations").pop(allocation_id)
        if allocation_id in self.view.saved:
            del self._own("saved")[allocation_id]
        self._account(allocation, at if unbilled_from is None else min(at, unbilled_from))
        self._note_sharing(allocation, at)
        for uuid in allocation.placement.uuids:
            self._let_go(uuid, allocation_id)
        for member in allocation.placement.members:
            self._drop_id("residents", member.node, allocation_id)

    def exchange(self, allocation: Allocation) -> None:
        """Give a live allocation these devices in place of those that it has. Raises KeyError if it is not live."""
        before = self.view.allocations[allocation.id]
        self._own("allocations")[allocation.id] = allocation
        for uuid in before.placement.uuids:
            self._let_go(uuid, allocation.id)
        for uuid in allocation.placement.uuids:
            self._hold(uuid, allocation.id)
            self._order_holders(uuid)
        for old, new in zip(before.placement.members, allocation.placement.members, strict=True):
            if self.view.given.get(new.node) == tuple(grant.uuid for grant in old.grants):
                self._own("given")[new.node] = tuple(grant.uuid for grant in new.grants)

    def cordon_device(self, uuid: str, reason: str | None) -> None:
        """Cordon the device for this reason, or uncordon it (None)."""
        if reason is None:
            self.drop("cordons", uuid)
        else:
            self.put("cordons", uuid, reason)
        condition = self.view.conditions.get(uuid)
        if condition is not None:
            self.put("conditions", uuid, replace(condition, cordoned=reason))

    def set_health(self, uuid: str, health: DeviceHealth) -> None:
        """Set the health of the device; a device with nothing to remember has none."""
        known = None if health.is_forgotten else health
        if known is None:
            self.drop("health", uuid)
        else:
            self.put("health", uuid, known)
        condition = self.view.conditions.get(uuid)
        if condition is not None:
            self.put("conditions", uuid, replace(condition, health=known))

    def set_node(self, name: str, node: Node | None) -> None:
        """Set a node, or remove it (None). `cut_pools` updates the pools afterwards."""
        before = self.view.nodes.get(name)
        if node is None:
            self.drop("nodes", name)
        else:
            self.put("nodes", name, node)
        lack = None if node is None else node.no_docker
        if lack is not None:
            self.put("no_docker", name, lack)
        elif name in self.view.no_docker:
            self.drop("no_docker", name)
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
        if run.packed is not None:
            self._remember_packed(run.user, run.packed, run.ran_s)

    def _remember_duration(self, job: Job) -> None:
        ran_s = _ran_s(job) if job.phase is Phase.SUCCEEDED else None
        if ran_s is not None and job.started_at is not None and job.ended_at is not None:
            spec = job.spec
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

    def _note_sharing(self, allocation: Allocation, at: float) -> None:
        """Note how many packable jobs were on the device of one whose allocation ends, and for how long with others."""
        ends, job = _packed_holder(self.view, allocation), self.view.jobs.get(allocation.job_id)
        if ends is None or job is None:
            return
        shared_s = self.view.beside_s.get(allocation.id, 0.0)
        self.drop("beside_s", allocation.id)
        for other in self.view.holders[ends.uuid]:
            if other != allocation.id:
                both_s = max(0.0, at - max(ends.since, self.view.allocations[other].created_at))
                self.put("beside_s", other, self.view.beside_s.get(other, 0.0) + both_s)
                shared_s += both_s
        held_s, program = at - ends.since, program_of(job.spec)
        if program is not None:
            together = 1.0 + shared_s / held_s if held_s > 0 else 1.0
            ran_s = _ran_s(job) if job.phase is Phase.SUCCEEDED else None
            self._remember_packed(job.spec.user, PackedAttempt(program, ends.uuid, together), ran_s)

    def _remember_packed(self, user: str, packed: PackedAttempt, ran_s: float | None) -> None:
        shared = None if packed.together is None else shared_by(packed.program, packed.together)
        if shared is not None and ran_s is not None and is_run_time(ran_s):
            remember(self._own("packed"), user, (shared,), ran_s)

    def _hold(self, uuid: str, allocation_id: str) -> None:
        holders = self._own("holders")
        if allocation_id not in holders.get(uuid, ()):
            holders[uuid] = (*holders.get(uuid, ()), allocation_id)

    def _order_holders(self, uuid: str) -> None:
        """Order the holders of a device as their allocations were made: a view that is read anew has them so."""
        holders = self._own("holders")
        held = holders[uuid]
        if len(held) > 1:
            holders[uuid] = tuple(one for one in self._own("allocations") if one in held)

    def _let_go(self, uuid: str, allocation_id: str) -> None:
        holders = self._own("holders")
        left = tuple(other for other in holders.get(uuid, ()) if other != allocation_id)
        if left:
            holders[uuid] = left
        else:
            holders.pop(uuid, None)


def _ran_s(job: Job) -> float | None:
    """The run time of a job that has ended; None if it is not known."""
    return None if job.started_at is None or job.ended_at is None else max(0.0, job.ended_at - job.started_at)


def _packed_holder(view: View, allocation: Allocation) -> Sharer | None:
    """The allocation of a packable job on its device; None if it is another job's."""
    job, uuids = view.jobs.get(allocation.job_id), allocation.placement.uuids
    if job is None or not job.spec.packable or len(uuids) != 1:
        return None
    return Sharer(allocation.id, uuids[0], allocation.created_at)
