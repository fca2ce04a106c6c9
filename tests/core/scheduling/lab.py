"""Small clusters and jobs to plan over."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from corral.core.model.devices.device import Device, DeviceCondition, Node
from corral.core.model.fact import (
    AllocationEnded,
    AllocationMade,
    ConditionObserved,
    Delta,
    JobChanged,
    JobSubmitted,
    NodeObserved,
)
from corral.core.model.jobs.job import Job, JobSpec, Request
from corral.core.model.jobs.job_patch import JobPatch
from corral.core.model.jobs.phase import Phase
from corral.core.model.placing.allocation import Allocation, Placement
from corral.core.model.placing.plan import Plan, Start
from corral.core.model.runs.prediction import PastOfUsers, PastValues, groups_of, remember
from corral.core.model.view import View

T0 = 1_000_000.0
A100 = "NVIDIA A100-SXM4-80GB"
H100 = "NVIDIA H100 80GB HBM3"


def box(name: str = "box", gpus: int = 8, *, model: str = A100, memory_mib: int = 81_920, cpus: int = 64) -> Node:
    devices = tuple(Device(f"GPU-{name}-{i}", i, model, memory_mib, compute_capability=(8, 0)) for i in range(gpus))
    return Node(name, devices, cpu_milli=cpus * 1000, memory_mib=512 * 1024)


def powered(node: Node, limit_w: int | None, least_w: int = 100) -> Node:
    """The node with this power limit on each device, which jobs may lower to `least_w`; None is an unknown limit."""
    limit_mw = None if limit_w is None else 1000 * limit_w
    settable = None if limit_mw is None else (1000 * least_w, limit_mw)
    devices = tuple(replace(one, power_limit_mw=limit_mw, power_range_mw=settable) for one in node.devices)
    return replace(node, devices=devices)


def observed(*nodes: Node, **conditions: Any) -> list[Delta]:
    """Nodes with every device read and idle."""
    deltas: list[Delta] = [NodeObserved(node) for node in nodes]
    for node in nodes:
        deltas.extend(idle(device, **conditions) for device in node.devices)
    return deltas


def idle(device: Device, **changes: Any) -> ConditionObserved:
    fields = {"memory_free_mib": device.memory_mib, "utilization_pct": 0, **changes}
    return ConditionObserved(DeviceCondition(device.uuid, **fields))


def job(number: int, gpus: int = 1, **options: Any) -> Job:
    """Job `number`; options go to the job, its spec or its request, whichever has such a field."""
    request = {key: options.pop(key) for key in list(options) if key in Request.__dataclass_fields__}
    spec = {key: options.pop(key) for key in list(options) if key in JobSpec.__dataclass_fields__}
    spec.setdefault("user", "alice")
    spec.setdefault("command", ("true",))
    wanted = Request(devices=gpus, **request)
    submitted_at = options.pop("submitted_at", T0 + number)
    return Job(str(number), number, JobSpec(request=wanted, **spec), submitted_at, **options)


def ran(like: Job, *run_s: float) -> PastOfUsers:
    """The past of the job's user, of jobs like it that ran for these times."""
    past: dict[str, PastValues] = {}
    for value in run_s:
        remember(past, like.spec.user, groups_of(like.spec), value)
    return past


def submitted(*jobs: Job) -> list[Delta]:
    return [JobSubmitted(one, at=one.submitted_at, by="alice") for one in jobs]


def started(start: Start, jobs: View | None = None, at: float = T0, user: str = "alice") -> list[Delta]:
    """The facts that a committed start makes."""
    allocation = Allocation(f"{start.job_id}.1", start.job_id, user, start.placement, at)
    changes: JobPatch = {
        "phase": Phase.STARTING,
        "launches": 1,
        "allocation_id": allocation.id,
        "devices": start.placement.uuids,
    }
    running: JobPatch = {"phase": Phase.RUNNING, "started_at": at}
    return [
        JobChanged(start.job_id, changes, at=at, by="test"),
        AllocationMade(allocation, at=at, by="test"),
        JobChanged(start.job_id, running, at=at, by="test"),
    ]


def ended(job_id: str, at: float = T0) -> list[Delta]:
    return [
        JobChanged(job_id, {"phase": Phase.SUCCEEDED, "allocation_id": None, "exit_code": 0}, at=at, by="test"),
        AllocationEnded(f"{job_id}.1", job_id, at=at, by="test"),
    ]


def started_ids(plan: Plan) -> list[str]:
    return [start.job_id for start in plan.starts]


def view_of(deltas: Iterable[Delta]) -> View:
    return View().advance(deltas)


def uuids(placement: Placement) -> Sequence[str]:
    return placement.uuids
