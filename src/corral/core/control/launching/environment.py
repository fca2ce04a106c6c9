"""Builds the launches of a job, one per member, with the environment of each."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from corral.core.control.launching.slurm_environment import SLURM_MARK, SLURM_NAMES, slurm_variables
from corral.core.model.devices.device import FIRST_VENDOR, Device, Node
from corral.core.model.devices.numa import numa_binding
from corral.core.model.jobs import script_copy
from corral.core.model.jobs.checkpoint_signal import CheckpointSignal
from corral.core.model.jobs.checkpoints import checkpoint_dirs
from corral.core.model.jobs.job import Job, JobKind
from corral.core.model.jobs.named_values import named_values
from corral.core.model.jobs.output import output_files
from corral.core.model.placing.allocation import Allocation, Grant, Member
from corral.core.model.placing.tenant import Tenant
from corral.core.model.runs.launch import DeviceUse, Launch
from corral.core.model.units import format_memory
from corral.core.model.view import View
from corral.core.ports.node import Rendezvous
from corral.vendors.registry import vendor_named, vendors_of

_OF_ANOTHER_JOB = frozenset(
    {
        *("CORRAL_ARRAY_ID", "CORRAL_ARRAY_INDEX", "CORRAL_GANG_SIZE", "CORRAL_NODES", "CORRAL_RANK"),
        *("CORRAL_SRUN_SOCKET", "CORRAL_RESERVATION", "CORRAL_RESERVATION_DEPTH", script_copy.VARIABLE),
        *("CORRAL_CHECKPOINT_DIR", "CORRAL_CHECKPOINT_SIGNAL", "CORRAL_CHECKPOINT_GRACE_S", "CORRAL_RESTORE"),
        "CORRAL_GPU_VARIABLE",
    }
)
"""Variables that belong to another job, if the job was submitted from a job or a reservation, and variables that
are not for processes.
"""

GPU_VARIABLE = "CORRAL_GPU_VARIABLE"
"""Names the variable with the UUIDs of the job's devices if these are not of the first vendor."""

_UNLESS_GIVEN = {"PYTHONUNBUFFERED": "1"}
"""Variables that a job gets if its submitter has none of that name: otherwise Python buffers its output, and the
log stays empty.
"""


def launches_of(job: Job, allocation: Allocation, view: View, notes: Sequence[str] = ()) -> tuple[Launch, ...]:
    """Return a launch for each member of the allocation, in order of rank; `notes` go to the log of each.

    The environment of a member is its submitter's, overridden by Corral's own variables. A member sees only its own
    devices. Without devices, the variables for visible devices are set and empty. Members of a gang have variables for
    their rank and the other members. A script has no rank: it runs once, and `srun` starts the processes on the
    members. A script with lines for Slurm also has Slurm's variables. `uses` of a launch leaves out a device that its
    node no longer has.
    """
    members = allocation.placement.members
    given = submitted_with(job)
    shared = {**given, **dict(job.spec.params), **_of_the_job(job, allocation)}
    nodes = [member.node for member in members]
    outputs, saved_in = output_files(job, nodes), checkpoint_dirs(job, nodes)
    launches = []
    for rank, (member, files) in enumerate(zip(members, outputs, strict=True)):
        devices = _devices(view.nodes.get(member.node))
        own = {**_seeing(shared, member, devices), **_of_the_devices(member, devices)}
        if len(members) > 1:
            own |= _of_the_member(members, rank, with_ranks=not job.spec.script)
        if SLURM_MARK in given:
            own |= slurm_variables(job, given, members, rank)
        launches.append(
            Launch(
                allocation.id,
                job,
                tuple(sorted(own.items())),
                (
                    *_parameters(job),
                    *job.spec.notes,
                    *notes,
                    *_stale(view, member, devices),
                    *([] if files.note is None else [files.note]),
                ),
                cpu_milli=member.cpu_milli,
                host_memory_mib=member.host_memory_mib,
                rank=rank,
                members=len(members),
                node=member.node,
                runtime=_runtime_of(job),
                uses=_uses(view, allocation, rank, devices),
                output=files.output,
                error=files.error,
                input=files.input,
                numa=numa_binding(member, view.nodes.get(member.node)),
                checkpoint_dirs=saved_in,
            )
        )
    return tuple(launches)


def _runtime_of(job: Job) -> str:
    if job.spec.kind is not JobKind.RUN:
        return "watch"
    if job.spec.pods:
        return "binding"
    return "process" if job.spec.container is None else "container"


def submitted_with(job: Job) -> dict[str, str]:
    """Return the environment of the job's submitter without the variables of another job, with defaults."""
    given = {name: value for name, value in job.spec.env if name not in _OF_ANOTHER_JOB}
    if SLURM_MARK in given:
        given = {name: value for name, value in given.items() if name not in SLURM_NAMES}
    return {**_UNLESS_GIVEN, **given}


def with_rendezvous(launches: Sequence[Launch], rendezvous: Rendezvous) -> tuple[Launch, ...]:
    """Return the launches of a gang with the address of their rendezvous; for a script also with the address for
    its `srun`.
    """
    where = {"MASTER_ADDR": rendezvous.address, "MASTER_PORT": str(rendezvous.port)}
    if launches[0].job.spec.script:
        where["CORRAL_SRUN_ADDRESS"] = f"{rendezvous.address}:{rendezvous.srun_port}"
        where["CORRAL_SRUN_SECRET"] = rendezvous.secret
    return tuple(replace(one, env=tuple(sorted({**dict(one.env), **where}.items()))) for one in launches)


def _parameters(job: Job) -> list[str]:
    return [f"parameters: {named_values(job.spec.params)}"] if job.spec.params else []


def _of_the_job(job: Job, allocation: Allocation) -> dict[str, str]:
    variables = {
        "CORRAL_JOB_ID": job.id,
        "CORRAL_JOB_NAME": job.spec.name,
        "CORRAL_ATTEMPT": str(allocation.attempt),
    }
    if job.spec.checkpoint_signal is not None:
        variables |= {
            "CORRAL_CHECKPOINT_SIGNAL": CheckpointSignal.parse(job.spec.checkpoint_signal).name,
            "CORRAL_CHECKPOINT_GRACE_S": f"{job.spec.checkpoint_grace_s:g}",
        }
    if job.array_id is not None:
        variables |= {"CORRAL_ARRAY_ID": job.array_id, "CORRAL_ARRAY_INDEX": str(job.array_index)}
    return variables


def _of_the_devices(member: Member, devices: Mapping[str, Device]) -> dict[str, str]:
    uuids = [grant.uuid for grant in member.grants]
    return {
        "CORRAL_NODE": member.node,
        "CORRAL_GPUS": str(len(uuids)),
        "CORRAL_GPU_INDICES": ",".join(str(devices[uuid].index) for uuid in uuids if uuid in devices),
    }


def _seeing(env: Mapping[str, str], member: Member, devices: Mapping[str, Device]) -> dict[str, str]:
    """Return the environment in which a process sees only the member's devices, and none of another vendor on its node.

    `devices` are the node's. A missing device, and a node without devices, count as the first vendor's.
    """
    granted: dict[str, list[str]] = {}
    for grant in member.grants:
        vendor = devices[grant.uuid].vendor if grant.uuid in devices else FIRST_VENDOR
        granted.setdefault(vendor, []).append(grant.uuid)
    there = dict.fromkeys(device.vendor for device in devices.values())
    makers = {name: vendor_named(name) for name in (*there, *granted)} or {FIRST_VENDOR: vendor_named(FIRST_VENDOR)}
    unset = {variable for name in granted for variable in makers[name].unset}
    visible = {
        variable: value
        for name, vendor in makers.items()
        for variable, value in vendor.visible(granted.get(name, ())).items()
        if name in granted or not granted or not value
    }
    # Programs that divide a job's devices among tasks use the first vendor's variable by default.
    others = next((makers[name].variable for name in granted if name != FIRST_VENDOR), None)
    named = {} if others is None else {GPU_VARIABLE: others}
    return {variable: value for variable, value in {**env, **visible, **named}.items() if variable not in unset}


def hidden(node: Node | None) -> dict[str, str]:
    """Return the variables with which a process sees no device of its node."""
    makers = vendors_of(() if node is None else node.devices) or (vendor_named(FIRST_VENDOR),)
    return {name: value for vendor in makers for name, value in vendor.visible(()).items() if not value}


def _of_the_member(members: Sequence[Member], rank: int, *, with_ranks: bool) -> dict[str, str]:
    """Return the variables for the member's place in its gang: Corral's own, and those of torch.distributed."""
    nodes = [member.node for member in members]
    variables = {
        "CORRAL_GANG_SIZE": str(len(nodes)),
        "CORRAL_RANK": str(rank),
        "CORRAL_NODES": ",".join(nodes),
    }
    if with_ranks:
        node = nodes[rank]
        variables |= {
            "RANK": str(rank),
            "WORLD_SIZE": str(len(nodes)),
            "LOCAL_RANK": str(nodes[:rank].count(node)),
            "LOCAL_WORLD_SIZE": str(nodes.count(node)),
            "NODE_RANK": str(list(dict.fromkeys(nodes)).index(node)),
        }
    return variables


def _devices(node: Node | None) -> dict[str, Device]:
    return {} if node is None else {device.uuid: device for device in node.devices}


def _uses(view: View, allocation: Allocation, rank: int, devices: Mapping[str, Device]) -> tuple[DeviceUse, ...]:
    """Return the member's devices. The earlier tenants of a device are other jobs, and members of lower rank."""
    members = allocation.placement.members
    return tuple(
        DeviceUse(
            device=devices[grant.uuid],
            whole=devices.get(devices[grant.uuid].parent_uuid or ""),
            tenants=(
                *(
                    tenant
                    for other_id in view.holders.get(grant.uuid, ())
                    if other_id != allocation.id
                    for member in view.allocations[other_id].placement.members
                    for tenant in _tenants(view, view.allocations[other_id], member, grant.uuid)
                ),
                *(tenant for member in members[:rank] for tenant in _tenants(view, allocation, member, grant.uuid)),
            ),
            newcomer=_tenant(view, allocation, members[rank], grant),
        )
        for grant in members[rank].grants
        if grant.uuid in devices
    )


def _tenants(view: View, allocation: Allocation, member: Member, uuid: str) -> list[Tenant]:
    return [_tenant(view, allocation, member, grant) for grant in member.grants if grant.uuid == uuid]


def _tenant(view: View, allocation: Allocation, member: Member, grant: Grant) -> Tenant:
    job = view.jobs.get(allocation.job_id)
    cores = None if job is None else job.spec.request.cores_percent
    return Tenant(allocation.job_id, allocation.user, grant, cores, alone=len(member.grants) == 1)


def _stale(view: View, member: Member, devices: Mapping[str, Device]) -> list[str]:
    """Return lines for the member's log about devices that it shares with processes which only hold memory."""
    notes = []
    for grant in member.grants:
        condition, device = view.conditions.get(grant.uuid), devices.get(grant.uuid)
        if condition is not None and device is not None and condition.strangers and condition.stale:
            held_mib = sum(process.memory_mib or 0 for process in condition.strangers)
            owners = ", ".join(sorted({process.owner or f"pid {process.pid}" for process in condition.strangers}))
            notes.append(
                f"warning: GPU {device.index} is stale: processes of {owners} hold {format_memory(held_mib)} of it "
                f"and have not used it for a while; {format_memory(condition.memory_free_mib)} is left"
            )
    return notes
