"""Makes the rows of jobs, devices and nodes that listings show."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from corral.core.model.answers.devices import ContainerRow, DeviceRow, HolderRow, LinkRow, PartRow, PodRow, ProcessRow
from corral.core.model.answers.jobs import GrantRow, JobRow
from corral.core.model.answers.site import NodeRow
from corral.core.model.devices.device import (
    Device,
    DeviceCondition,
    DeviceSample,
    DeviceState,
    HoldingPod,
    NodeCordon,
    NodeStatus,
    availability_score,
    throttle_reasons,
)
from corral.core.model.devices.health import WELL
from corral.core.model.jobs.job import Job, Request
from corral.core.model.placing.allocation import Allocation, Grant
from corral.core.model.placing.certainty import Certainty
from corral.core.model.placing.plan import WaitReason
from corral.core.model.units import MILLI_PER_DEVICE, count_of, format_memory, format_share
from corral.core.model.version import dotted
from corral.core.model.view import View
from corral.core.ports.telemetry import NodeContact
from corral.core.scheduling.explaining.phrases import count_of_cpus


def job_row(
    job: Job,
    wait: WaitReason | None,
    expected_start: float | None,
    allocation: Allocation | None = None,
    *,
    certainty: Certainty | None = None,
    remark: str | None = None,
) -> JobRow:
    """Return a job's row of `ps`: why the job waits and until when, or its allocation, if known.

    `certainty` is that of the expected start. `remark` stands in place of a reason for a job without a reason. It says
    why a job that has devices has not begun or cannot be observed, or why a job failed.
    """
    spec = job.spec
    members = () if allocation is None else allocation.placement.members
    grants = tuple(grant for member in members for grant in member.grants)
    return JobRow(
        id=job.id,
        array_id=job.array_id,
        array_index=job.array_index,
        name=spec.name,
        user=spec.user,
        phase=job.phase,
        exit_code=job.exit_code,
        signal=job.signal,
        reason=job.reason or remark,
        devices=job.devices,
        priority=spec.priority,
        submitted_at=job.submitted_at,
        started_at=job.started_at,
        ended_at=job.ended_at,
        attempts=job.attempts,
        kind=spec.kind,
        held=job.held,
        queue=spec.queue,
        project=spec.project,
        command=spec.command,
        gpus=spec.request.devices * spec.request.gang_size,
        gpus_milli=sum(grant.share_milli for grant in grants) or _asked_milli(spec.request),
        grants=grant_rows(grants),
        enforcement=None if allocation is None else allocation.enforcement,
        time_limit_s=spec.time_limit_s,
        sequence=job.sequence,
        wait=None if wait is None else wait.value,
        expected_start=expected_start,
        expected_start_is=certainty,
        eviction=job.eviction,
        evictions=job.evictions,
        lost_s=job.lost_s,
        site_faults=job.site_faults,
        begin_at=spec.begin_at,
        params=dict(spec.params),
        nodes=tuple(dict.fromkeys(member.node for member in members)),
    )


def _asked_milli(request: Request) -> int | None:
    """Return the requested share; None if it depends on the device's memory."""
    return None if request.share_of_memory else request.total_milli


def grant_rows(grants: Sequence[Grant]) -> tuple[GrantRow, ...]:
    """Return a row for each granted device."""
    return tuple(GrantRow(grant.uuid, grant.share_milli, grant.memory_mib) for grant in grants)


def device_rows(
    view: View, samples: Mapping[str, DeviceSample], via: Callable[[str], str | None] = lambda node: None
) -> list[DeviceRow]:
    """Return every device as `status` lists it, in node and index order. `via` tells how a node is reached."""
    return [
        _device_row(view, node_name, device, samples.get(device.uuid), joined=via(node_name) is not None)
        for node_name in sorted(view.nodes)
        for device in sorted(view.nodes[node_name].devices, key=lambda d: (d.index, d.uuid))
    ]


def standing_of(view: View, node_name: str, device: Device) -> tuple[DeviceCondition, DeviceState]:
    """Return a device's obstacles to allocation, its node's cordon included, and its state for display."""
    condition = view.conditions.get(device.uuid) or DeviceCondition(
        device.uuid, unreadable="not sampled yet", cordoned=view.cordons.get(device.uuid)
    )
    cordon = view.node_cordons.get(node_name)
    by_cluster = view.cluster_cordon(node_name)
    if cordon is not None and condition.cordoned is None:
        condition = replace(condition, cordoned=cordon.reason or f"its node is cordoned by {cordon.by}")
    elif by_cluster is not None and condition.cordoned is None:
        condition = replace(condition, cordoned=by_cluster)
    allocations = [view.allocations[allocation_id] for allocation_id in view.holders.get(device.uuid, ())]
    of_slices = [view.allocations[a] for part in device.partitions for a in view.holders.get(part.uuid, ())]
    state = condition.state(
        allocated=any(not allocation.reserved for allocation in (*allocations, *of_slices)),
        reserved=any(allocation.reserved for allocation in (*allocations, *of_slices)),
    )
    # The rest of a device of which pods have parts is free for jobs. For people it is in use.
    partly = condition.parts and state is DeviceState.FREE
    return condition, DeviceState.IN_USE if partly else state


def _device_row(view: View, node_name: str, device: Device, sample: DeviceSample | None, *, joined: bool) -> DeviceRow:
    condition, state = standing_of(view, node_name, device)
    allocations = [view.allocations[allocation_id] for allocation_id in view.holders.get(device.uuid, ())]
    seen, health = sample or DeviceSample(device.uuid, 0.0), view.health.get(device.uuid, WELL)
    grants = [(one, grant) for one in allocations for grant in one.placement.grants if grant.uuid == device.uuid]
    settable = device.settable_power_mw
    return DeviceRow(
        uuid=device.uuid,
        index=device.index,
        name=device.model,
        state=state.value,
        memory_total_mib=device.memory_mib,
        memory_used_mib=seen.memory_used_mib,
        memory_free_mib=seen.memory_free_mib,
        utilization_pct=seen.utilization_pct,
        temperature_c=seen.temperature_c,
        power_w=_watts(seen.power_mw),
        holders=tuple(
            HolderRow(allocation.job_id, allocation.user, grant.share_milli, grant.memory_mib)
            for allocation, grant in grants
        ),
        processes=tuple(
            ProcessRow(
                process.pid,
                process.user,
                process.command,
                process.memory_mib,
                process.job_id,
                None if process.runs_in is None else ContainerRow(process.runs_in.name, process.runs_in.image),
            )
            for process in seen.processes or ()
        ),
        state_reason=condition.reason(state),
        state_since=condition.since(state),
        since=condition.strangers_since,
        node=node_name,
        compute_capability=None if device.compute_capability is None else dotted(device.compute_capability),
        power_limit_w=_watts(device.power_limit_mw),
        job_power_limit_w=_limit_of_jobs(view, [allocation for allocation, _ in grants]),
        least_power_limit_w=None if settable is None else _watts(settable[0]),
        most_power_limit_w=None if settable is None else _watts(settable[1]),
        power_limit_fixed=device.power_fixed,
        pci_bus_id=device.pci_bus_id,
        numa_node=device.numa_node,
        mig_enabled=device.mig_enabled,
        mig_profile=device.mig_profile,
        parent=device.parent_uuid,
        means=device.means.value,
        held_as=device.held_by(max((grant.share_milli for _, grant in grants), default=0)).value,
        links=tuple(LinkRow(link.peer_uuid, link.kind, link.lanes) for link in device.links),
        availability=_availability(view, device, seen),
        vgpu_layer=None if device.virtual is None else device.virtual.name,
        vgpu_cuda=None if device.virtual is None else dotted(device.virtual.baseline),
        memory_bandwidth_pct=seen.memory_bandwidth_pct,
        sm_clock_mhz=seen.sm_clock_mhz,
        mem_clock_mhz=seen.mem_clock_mhz,
        throttled_by=None if seen.throttle is None else throttle_reasons(seen.throttle),
        xid=seen.xid,
        metered=seen.metered,
        pod=None if condition.pod is None else _pod_row(condition.pod),
        parts=tuple(PartRow(_pod_row(one.pod), one.share_milli, one.memory_mib) for one in condition.parts),
        vendor=device.vendor,
        health=health.state.value,
        health_reason=health.reason or None,
        health_since=health.since or None,
        joined=joined,
    )


def _pod_row(pod: HoldingPod) -> PodRow:
    return PodRow(pod.namespace, pod.name, pod.owner)


def _limit_of_jobs(view: View, allocations: Sequence[Allocation]) -> float | None:
    jobs = (view.jobs.get(allocation.job_id) for allocation in allocations)
    return next((limit for job in jobs if job and (limit := job.spec.request.power_limit_w) is not None), None)


def _availability(view: View, device: Device, seen: DeviceSample) -> float | None:
    if seen.memory_free_mib is None or seen.utilization_pct is None:
        return None
    weight = view.availability_memory_weight
    return availability_score(seen.memory_free_mib, device.memory_mib, seen.utilization_pct, weight)


def holding(view: View, allocation: Allocation) -> str | None:
    """Describe a job's allocation and its enforcement; None if there is none or it was not recorded.

    "holds 0.6 of GPU 0 with 1.2G, 2 CPUs; memory guarded, compute advisory, CPUs enforced".
    """
    if allocation.enforcement is None:
        return None
    known = {device.uuid: device for node in view.nodes.values() for device in node.devices}
    names = view.device_names()
    parts = [
        _part(known.get(grant.uuid), names.get(grant.uuid, grant.uuid), grant) for grant in allocation.placement.grants
    ]
    members, behind = allocation.placement.members, allocation.enforcement
    cpu_milli, memory_mib = sum(m.cpu_milli for m in members), sum(m.host_memory_mib for m in members)
    if cpu_milli:
        parts.append(count_of_cpus(cpu_milli))
    if memory_mib:
        parts.append(f"{format_memory(memory_mib)} of host memory")
    levels = (
        ("memory", behind.memory), ("compute", behind.compute),
        ("CPUs", behind.cpus), ("host memory", behind.host_memory),
    )  # fmt: skip
    enforced = ", ".join(f"{what} {level}" for what, level in levels if level is not None)
    why = "" if behind.reason is None else f" ({behind.reason})"
    return f"holds {', '.join(parts)}; {enforced}{why}"


def _part(device: Device | None, name: str, grant: Grant) -> str:
    if device is not None and device.mig_profile is not None:
        return f"{name}, a slice {device.mig_profile}"
    if grant.share_milli == MILLI_PER_DEVICE:
        return name
    memory = "" if grant.memory_mib is None else f" with {format_memory(grant.memory_mib)}"
    return f"{format_share(grant.share_milli)} of {name}{memory}"


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def node_rows(
    view: View, contacts: Iterable[NodeContact], via: Callable[[str], str | None] = lambda node: None
) -> list[NodeRow]:
    """Return a row for every node, by name: nodes with an inventory, nodes that should answer, and silent nodes.

    `via` tells how a node is reached.
    """
    seen = {contact.node: contact for contact in contacts}
    names = sorted({*view.nodes, *seen, *view.silences})
    return [_row(view, name, seen.get(name), via(name)) for name in names]


def _row(view: View, name: str, contact: NodeContact | None, via: str | None) -> NodeRow:
    node, status = view.nodes.get(name), view.status(name)
    whole = () if node is None else [device for device in node.devices if device.parent_uuid is None]
    return NodeRow(
        name=name,
        state=status.value,
        reason=_reason(view, name, status),
        last_seen_at=None if contact is None else contact.last_seen_at,
        devices=len(whole),
        cpus=None if node is None else node.cpu_milli / 1000,
        memory_mib=None if node is None else node.memory_mib,
        labels={} if node is None else dict(node.labels),
        boot_id=None if node is None else node.boot_id,
        connected_at=None if contact is None else contact.connected_at,
        via=via,
        clock_ahead_s=0.0 if contact is None else contact.clock_ahead_s,
        no_docker=view.no_docker.get(name),
        barred=dict(view.barred.get(name, {})),
    )


def _reason(view: View, name: str, status: NodeStatus) -> str | None:
    if name in view.silences:
        return view.silences[name].reason
    cordon = view.node_cordons.get(name)
    return (
        view.cluster_cordon(name) if cordon is None else _of_cordon(cordon, len(view.residents.get(name, ())), status)
    )


def _of_cordon(cordon: NodeCordon, residents: int, status: NodeStatus) -> str:
    """Describe an administrator's cordon or drain of a node, with its progress and reason: "drained by bob: kernel
    update".
    """
    why = f": {cordon.reason}" if cordon.reason else ""
    if status is NodeStatus.DRAINING:
        return f"draining, {count_of(residents, 'job')} left, by {cordon.by}{why}"
    return f"{'drained' if cordon.draining else 'cordoned'} by {cordon.by}{why}"
