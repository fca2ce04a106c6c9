"""Explains what a waiting job lacks: its needs, the free capacity of the best node, and the job that will free more."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from corral.core.model.devices.device import Device, DeviceCondition, DeviceState, NodeStatus
from corral.core.model.jobs.job import JobKind, Request
from corral.core.model.placing.fit import (
    NEIGHBOUR_CAUSES,
    NODE_CAUSES,
    Cause,
    Misfit,
    accepts,
    could_use,
    grant_memory_mib,
    serves_others,
    share_milli_of,
)
from corral.core.model.placing.placement_rules import allows, untolerated
from corral.core.model.placing.state import Slot, members_on, node_state, slot_of
from corral.core.model.runs.packing import user_of_key
from corral.core.model.units import MILLI_PER_DEVICE, count_of, format_duration, format_memory, format_share
from corral.core.model.view import View
from corral.core.scheduling.explaining.phrases import count_of_cpus, job_called, jobs_called, need_of, nodes_called
from corral.core.scheduling.explaining.power_lack import hindrance
from corral.core.scheduling.placing.start_recheck import useful_devices
from corral.core.scheduling.state.neighbours import Neighbours, neighbours_in

_MOST_NAMED = 3
_CAUSES_OF_RULES = frozenset({*NEIGHBOUR_CAUSES, Cause.TAINT, Cause.NODE_AFFINITY, Cause.MEMBERS, Cause.NODE_NAME})


def shortage(
    view: View,
    request: Request,
    misfit: Misfit,
    now: float,
    closed_pools: Sequence[str] = (),
    *,
    barred: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """A sentence on what is needed, what the best node has free, and which job gives back how much by when.

    Devices of `closed_pools` do not count as free. `barred` are the nodes that are barred to the job's user, with the
    reasons.
    """
    need = f"it needs {need_of(request)}"
    node = view.nodes.get(misfit.node or "")
    if node is None and view.nodes and barred and (excluded := _excluded_nodes(view, request, barred)) is not None:
        return f"{need}; {excluded}"
    if node is None:
        return f"{need}; no node is in the cluster now" if not view.nodes else f"{need}; no node has that free"
    # Members of a gang that fit are placed first: the misfit is of the first one that does not.
    here = "the best node for the next member is" if request.gang_size > 1 else "the best node is"
    here = node.name if len(view.nodes) == 1 else f"{here} {node.name}, which"
    if misfit.cause is Cause.CPU:
        has = f"{count_of_cpus(max(0, misfit.available))} of {count_of_cpus(node.cpu_milli)} free"
        return f"{need}; {here} has {has}"
    if misfit.cause is Cause.HOST_MEMORY:
        has = f"{format_memory(max(0, misfit.available))} of {format_memory(node.memory_mib)} of memory free"
        return f"{need}; {here} has {has}"
    if misfit.cause is Cause.DISK:
        has = f"{format_memory(max(0, misfit.available))} of {format_memory(node.disk_mib)} of disk free"
        return f"{need}; {here} has {has}"
    excluded = _excluded_nodes(view, request, barred)
    if misfit.cause is Cause.ANTI_AFFINITY and request.rules is None and request.avoid_jobs:
        return f"{need}; {here} runs {', '.join(request.avoid_jobs)}, which must not share a node with it"
    if excluded is not None and misfit.cause in _CAUSES_OF_RULES:
        return f"{need}; {excluded}"
    if misfit.cause in NODE_CAUSES:
        return f"{need}; nothing starts on {_nodes_that_take_nothing(view)}"
    there = [_inventory(view, node.name, request, now, _set_apart(view, closed_pools)), _frees(view, request, now)]
    beside = f"nothing starts on {closed}" if (closed := _nodes_that_take_nothing(view)) else None
    beside = "; ".join(part for part in (_over_power_budget(view, misfit), beside) if part)
    return f"{need}; {here} has {'; '.join(part for part in (*there, beside, excluded) if part)}"


def _over_power_budget(view: View, misfit: Misfit) -> str | None:
    """A clause on the devices that the site's power budget keeps free; None if there are none."""
    count = dict(misfit.devices).get(Cause.POWER_BUDGET)
    if count is None:
        return None
    budget = f"what is left of the site's power budget of {view.limits.power_budget_w} W"
    return f"the power limit of {count_of(count, 'GPU')} there is above {budget}, or unknown"


def _nodes_that_take_nothing(view: View) -> str:
    """The nodes on which nothing may start, each with its status: "gpu-03 (silent), gpu-04 (draining) and 2 more"."""
    closed = [(name, status) for name in sorted(view.nodes) if (status := view.status(name)) is not NodeStatus.READY]
    named = ", ".join(f"{name} ({status})" for name, status in closed[:_MOST_NAMED])
    more = len(closed) - _MOST_NAMED
    return f"{named} and {more} more" if more > 0 else named


def _set_apart(view: View, closed_pools: Sequence[str]) -> dict[str, str]:
    """The pool of each device in a closed pool, by UUID."""
    return {uuid: name for name in closed_pools for here in view.set_apart[name].values() for uuid in here}


def _inventory(view: View, name: str, request: Request, now: float, apart: Mapping[str, str]) -> str:
    """The node's devices that could serve the request, counted by their state: "2 free, 3 allocated to job 7 (eve)"."""
    state = node_state(view, name)
    free, parts = 0, []
    holders: Counter[str] = Counter()
    other: Counter[str] = Counter()
    for device, slot in zip(view.nodes[name].devices, state.slots, strict=True):
        if request.device_uuids and device.uuid not in request.device_uuids:
            continue
        if request.avoids(device):
            other["kept off, because it fell sick while the job ran there"] += 1
        elif not could_use(request, slot):
            other[_other_kind(device, request)] += 1
        elif device.uuid in apart:
            other[f"in pool {apart[device.uuid]}, which is not for this job"] += 1
        elif slot.blocked is not None and not accepts(request, slot):
            other[_blocked(view, device, slot.blocked, now) + _too_little(slot, request)] += 1
        elif (taken := _taken_in_part(view, device, slot, request)) is not None:
            other[taken] += 1
        elif slot.free_milli < share_milli_of(request, slot):
            holders.update(dict.fromkeys(_holder_ids(view, device.uuid), 1))
            parts.append(device.uuid)
        elif (hindrance := _hindrance(slot, request)) is not None:
            other[hindrance] += 1
        else:
            free += 1
    words = [f"{free} free"]
    if parts:
        words.append(f"{len(parts)} {_allocated_to(view, holders)}{_shared(view, parts)}")
    words += [f"{count} {what}" for what, count in sorted(other.items(), key=lambda item: (-item[1], item[0]))]
    return ", ".join(words)


def _taken_in_part(view: View, device: Device, slot: Slot, request: Request) -> str | None:
    """A clause on the pods outside Corral whose parts of a device leave too little of it; None if they leave enough."""
    condition = view.conditions.get(device.uuid)
    if condition is None or not condition.parts:
        return None
    wanted_mib = grant_memory_mib(request, slot) or 0
    if slot.open_milli >= share_milli_of(request, slot) and wanted_mib <= (slot.memory_mib or 0) - slot.taken_mib:
        return None
    parts = sorted(condition.parts, key=lambda part: (-part.share_milli, str(part.pod)))
    named = ", ".join(f"{part.pod} ({format_share(part.share_milli)})" for part in parts[:_MOST_NAMED])
    more = len(parts) - _MOST_NAMED
    return f"in use in part by {named}{f' and {more} more' if more > 0 else ''}, not started by Corral"


def _other_kind(device: Device, request: Request) -> str:
    """A clause on a device that could never serve the request."""
    alike = could_use(replace(request, power_limit_w=None), slot_of(device, None, 0, 0))
    fixed = hindrance(device, request.power_limit_w) if alike and request.power_limit_w is not None else None
    return fixed or "of another kind"


def _hindrance(slot: Slot, request: Request) -> str | None:
    """The reason why the request cannot use a device whose share is free; None if nothing prevents it."""
    if serves_others(request, slot):
        return _serving(slot, request)
    wanted_mib = grant_memory_mib(request, slot) or 0
    if wanted_mib and (slot.free_mib is None or slot.free_mib < wanted_mib):
        left = "an unknown part" if slot.free_mib is None else format_memory(max(0, slot.free_mib))
        return f"with {left} of memory not granted to others"
    return None


def _serving(slot: Slot, request: Request) -> str:
    """Whom a device serves that has room, but not for this request."""
    if request.pack is not None and slot.tenant is None:
        return "shared by jobs that are not packed"
    user = None if slot.tenant is None else user_of_key(slot.tenant)
    if user is not None:
        return f"kept by packed jobs of {user} for others like them"
    return f"serving {slot.tenant} through MPS (one user at a time)"


def _holder_ids(view: View, uuid: str) -> list[str]:
    return [view.allocations[allocation_id].job_id for allocation_id in view.holders.get(uuid, ())]


def _allocated_to(view: View, holders: Counter[str]) -> str:
    ids = sorted(holders, key=lambda job_id: (-holders[job_id], len(job_id), job_id))
    users = sorted({view.jobs[job_id].spec.user for job_id in ids if job_id in view.jobs})
    verb = "allocated to"
    if ids and all(job_id in view.jobs and view.jobs[job_id].spec.kind is JobKind.RESERVE for job_id in ids):
        verb = "reserved by"
    return f"{verb} {jobs_called(ids)}" + (f" ({', '.join(users)})" if users and len(users) <= 3 else "")


def _shared(view: View, uuids: Iterable[str]) -> str:
    """The number of these devices that are shared, with the allocated part of each."""
    in_use = [format_share(milli) for uuid in uuids if (milli := view.allocated_milli(uuid)) < MILLI_PER_DEVICE]
    return f" ({len(in_use)} shared: {', '.join(in_use)} in use)" if in_use else ""


def _blocked(view: View, device: Device, state: DeviceState, now: float) -> str:
    condition = view.conditions.get(device.uuid)
    if condition is None:
        return "not sampled yet"
    if state in (DeviceState.IN_USE, DeviceState.STALE):
        users = [str(condition.pod)] if condition.pod is not None else _users(condition)
        since = condition.strangers_since
        started = "" if since is None else f" for {format_duration(now - since)}"
        verb = "in use by" if state is DeviceState.IN_USE else "unused, but with memory held by"
        return f"{verb} {', '.join(users) or 'somebody'}{started}, not started by Corral"
    reason = condition.reason(state)
    return state.value.replace("_", " ") + (f" ({reason})" if reason else "")


def _users(condition: DeviceCondition) -> list[str]:
    return sorted({process.owner or "somebody" for process in condition.strangers})


def _too_little(slot: Slot, request: Request) -> str:
    """The free memory of a device in use, if the request accepts devices in use but asks for more than that."""
    if request.accept_in_use is None or slot.blocked not in (DeviceState.IN_USE, DeviceState.STALE):
        return ""
    left = "an unknown part" if slot.left_mib is None else format_memory(slot.left_mib)
    return f" ({left} left of it, less than {format_memory(request.accept_in_use)})"


def _frees(view: View, request: Request, now: float) -> str | None:
    """A clause on the job that reaches its time limit first, of those that hold suitable devices."""
    useful = useful_devices(view, request)
    ends = []
    for allocation in view.allocations.values():
        job = view.jobs.get(allocation.job_id)
        if job is None or job.spec.time_limit_s is None:
            continue
        count = sum(uuid in useful for uuid in allocation.placement.uuids)
        if count:
            start = job.started_at if job.started_at is not None else allocation.created_at
            ends.append((start + job.spec.time_limit_s, job.sequence, job, count))
    if not ends:
        return None
    end, _, job, count = min(ends, key=lambda item: item[:2])
    return f"{job_called(job)} frees {count} within {format_duration(end - now)} (its time limit)"


_MOST_CLAUSES = 4


def _excluded_nodes(view: View, request: Request, barred: Mapping[str, str]) -> str | None:
    """A clause for each reason that rules nodes out, starting with the most frequent one; None if no rule excludes any.

    "3 nodes have a taint that it does not tolerate: dedicated=infra:NoSchedule; its node affinity rules out 1 node".
    """
    neighbours = neighbours_in(view)
    reasons = Counter(
        reason
        for name in sorted(view.nodes)
        if (reason := _reason(view, request, name, neighbours, barred)) is not None
    )
    if not reasons:
        return None
    clauses = [
        text.replace("{nodes}", count_of(count, "node")).replace("{have}", "has" if count == 1 else "have")
        for text, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    ]
    more = len(clauses) - _MOST_CLAUSES
    return "; ".join(clauses[:_MOST_CLAUSES]) + (f"; and {more} more reasons" if more > 0 else "")


def _reason(view: View, request: Request, name: str, neighbours: Neighbours, barred: Mapping[str, str]) -> str | None:
    node = view.nodes[name]
    rules = request.rules
    if request.named_nodes and name not in request.named_nodes:
        return None
    if name in barred:
        return f"{{nodes}} cannot run {barred[name]}"
    if name in request.excluded_nodes:
        return f"it excludes {nodes_called(_excluded_here(view, request))}"
    if rules is not None and not allows(rules, node.labels, name):
        return "its node affinity rules out {nodes}"
    taint = untolerated(node.taints, rules)
    if taint is not None:
        return f"{{nodes}} {{have}} a taint that it does not tolerate: {taint}"
    if node.most_members is not None and len(members_on(view, name)) >= node.most_members:
        return "{nodes} {have} no room for another pod"
    misfit = neighbours.misfit(request, name)
    return None if misfit is None else _neighbour_clause(request, misfit)


def _excluded_here(view: View, request: Request) -> list[str]:
    return sorted(name for name in set(request.excluded_nodes) if name in view.nodes)


def _neighbour_clause(request: Request, misfit: Misfit) -> str:
    """A clause on the running jobs that rule out a node, with the placeholders {nodes} and {have}."""
    assert misfit.cause in NEIGHBOUR_CAUSES, "only these are about neighbours"
    if misfit.cause is Cause.AFFINITY:
        return "{nodes} {have} no running job that it must be with"
    if misfit.cause is Cause.SPREAD:
        return f"{{nodes}} {{have}} already more of its kind than others, by more than {misfit.wanted}"
    if request.avoid_jobs:
        return f"{{nodes}} {{have}} {', '.join(request.avoid_jobs)} running, which must not share a node with it"
    return "{nodes} {have} a running job that must not share a node with it"
