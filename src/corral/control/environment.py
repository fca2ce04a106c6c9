"""What a job finds in its environment."""

from collections.abc import Mapping

from corral.model.allocation import Allocation
from corral.model.device import Device
from corral.model.job import Job
from corral.model.launch import Launch
from corral.model.units import format_memory
from corral.model.view import View

SLURM_MARK = "CORRAL_SBATCH"
"""The client sets it for scripts with #SBATCH lines, to the number of their tasks."""


def stale_notes(view: View, allocation: Allocation) -> tuple[str, ...]:
    """Lines for the job's log about devices that it shares with processes which only hold memory."""
    notes = []
    for uuid in allocation.placement.uuids:
        condition, found = view.conditions.get(uuid), view.device(uuid)
        if condition is not None and found is not None and condition.strangers and condition.stale:
            held_mib = sum(process.memory_mib or 0 for process in condition.strangers)
            owners = ", ".join(sorted({process.user or f"pid {process.pid}" for process in condition.strangers}))
            notes.append(
                f"warning: GPU {found[1].index} is stale: processes of {owners} hold {format_memory(held_mib)} of it "
                f"and have not used it for a while; {format_memory(condition.memory_free_mib)} is left"
            )
    return tuple(notes)


def _slurm_names(job: Job, given: Mapping[str, str], devices: int) -> dict[str, str]:
    """Output variables of sbatch(1), but none by which MPI and its kind would take this for a Slurm cluster."""
    spec, nodes = job.spec, job.spec.request.gang_size
    marked = given.get(SLURM_MARK, "")
    tasks = max(nodes, int(marked) if marked.isdecimal() and len(marked) < 10 else 1)
    names = {
        "SLURM_JOB_ID": job.id,
        "SLURM_JOB_NAME": spec.name,
        "SLURM_SUBMIT_DIR": given.get("PWD", spec.workdir),
        "SLURM_GPUS_ON_NODE": str(devices // nodes),
        "SLURM_JOB_NUM_NODES": str(nodes),
        "SLURM_NNODES": str(nodes),
    }
    if tasks > 1:  # of one, some frameworks would conclude that srun starts their processes
        names["SLURM_NTASKS"] = str(tasks)
    if spec.request.cpu_milli:
        names["SLURM_CPUS_PER_TASK"] = str(-(-spec.request.cpu_milli * nodes // (1000 * tasks)))
    if job.array_id is not None:
        names |= {"SLURM_ARRAY_JOB_ID": job.array_id, "SLURM_ARRAY_TASK_ID": str(job.array_index)}
    return names


def launch_of(job: Job, allocation: Allocation, devices: Mapping[str, Device], home: str, scratch: str) -> Launch:
    """The launch of `job` on `allocation`: its submitter's environment, with Corral's own variables over it.

    A job without devices sees none: CUDA_VISIBLE_DEVICES is set and empty. A gang is one process here, which sees the
    devices of all its members and is told how many they are. A script with lines for Slurm finds the
    names that such scripts use, too.
    """
    uuids = allocation.placement.uuids
    indices = [str(devices[uuid].index) for uuid in uuids if uuid in devices]
    own = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(uuids),
        "CORRAL_JOB_ID": job.id,
        "CORRAL_JOB_NAME": job.spec.name,
        "CORRAL_ATTEMPT": str(allocation.attempt),
        "CORRAL_GPUS": str(len(uuids)),
        "CORRAL_GPU_INDICES": ",".join(indices),
        "CORRAL_HOME": home,
        "CORRAL_SCRATCH": scratch,
    }
    if job.spec.request.gang_size > 1:
        own["CORRAL_GANG_SIZE"] = str(job.spec.request.gang_size)
    if job.array_id is not None:
        own |= {"CORRAL_ARRAY_ID": job.array_id, "CORRAL_ARRAY_INDEX": str(job.array_index)}
    given = dict(job.spec.env)
    if SLURM_MARK in given:
        own |= _slurm_names(job, given, len(uuids))
    environment = {**given, **own}
    members = allocation.placement.members
    return Launch(
        allocation.id,
        job,
        tuple(sorted(environment.items())),
        job.spec.notes,
        cpu_milli=sum(member.cpu_milli for member in members),
        host_memory_mib=sum(member.host_memory_mib for member in members),
    )
