"""The environment variables of sbatch(1), for scripts with #SBATCH lines."""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby

from corral.core.model.jobs.job import Job
from corral.core.model.placing.allocation import Member

SLURM_MARK = "CORRAL_SBATCH"
"""The variable that the client sets for scripts with #SBATCH lines.

Its value is the number of tasks. For an array the number of elements, the first, the last and the step follow,
separated by commas.
"""

_MARK = re.compile(r"([0-9]{1,9})(?:,([0-9]{1,10}),([0-9]{1,10}),([0-9]{1,10}),([0-9]{1,10}))?")
_ARRAY = ("SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_STEP")
_OF_TASKS = ("SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID")

SLURM_NAMES = frozenset(
    {
        *_ARRAY,
        *_OF_TASKS,
        *("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_NAME", "SLURM_SUBMIT_DIR", "SLURM_GPUS_ON_NODE"),
        *(
            "SLURM_NODEID",
            "SLURM_JOB_NUM_NODES",
            "SLURM_NNODES",
            "SLURM_JOB_NODELIST",
            "SLURM_NODELIST",
            "SLURM_TASKS_PER_NODE",
        ),
        *("SLURM_NODEID", "SLURM_CPUS_PER_TASK", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"),
    }
)
"""The names of all Slurm variables that a job may have. They are removed from the environment of a job that was
submitted from within another job.
"""

_NO_SLURM_FOR_MPI = {
    **dict.fromkeys(("OMPI_MCA_plm", "OMPI_MCA_ras", "PRTE_MCA_plm", "PRTE_MCA_ras"), "^slurm"),
    **dict.fromkeys(("HYDRA_LAUNCHER", "I_MPI_HYDRA_BOOTSTRAP"), "ssh"),
    "HYDRA_RMK": "user",
}
"""With the names above an mpirun would assume a Slurm cluster, and start its processes with an srun that cannot do
that.
"""


def slurm_variables(job: Job, given: Mapping[str, str], members: Sequence[Member], rank: int) -> dict[str, str]:
    """Return the variables of one member of a job; `given` are the submitter's variables."""
    spec = job.spec
    mark = _MARK.fullmatch(given.get(SLURM_MARK, ""))
    tasks = max(len(members), int(mark[1]) if mark else 1)
    on_nodes = [member.node for member in members]
    node, nodes = on_nodes[rank], list(dict.fromkeys(on_nodes))
    names = {
        **{name: value for name, value in _NO_SLURM_FOR_MPI.items() if name not in given},
        **dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOBID"), job.id),
        **dict.fromkeys(("SLURM_JOB_NUM_NODES", "SLURM_NNODES"), str(len(nodes))),
        **dict.fromkeys(("SLURM_JOB_NODELIST", "SLURM_NODELIST"), ",".join(nodes)),
        "SLURM_NODEID": str(nodes.index(node)),
        "SLURM_JOB_NAME": spec.name,
        "SLURM_SUBMIT_DIR": given.get("PWD", spec.workdir),
        "SLURM_GPUS_ON_NODE": str(sum(len(member.grants) for member in members if member.node == node)),
        "SLURM_TASKS_PER_NODE": _tasks_per_node(tasks, on_nodes),
    }
    if tasks > 1:  # with a count of 1, some frameworks would assume that srun starts their processes
        names |= dict(zip(_OF_TASKS, (str(tasks), "0", "0"), strict=True))
    if spec.request.cpu_milli:
        names["SLURM_CPUS_PER_TASK"] = str(-(-spec.request.cpu_milli * len(members) // (1000 * tasks)))
    if job.array_id is not None:
        names |= {"SLURM_ARRAY_JOB_ID": job.array_id, "SLURM_ARRAY_TASK_ID": str(job.array_index)}
        if mark and mark[2]:
            names |= dict(zip(_ARRAY, mark.groups()[1:], strict=True))
    return names


def _tasks_per_node(tasks: int, on_nodes: Sequence[str]) -> str:
    """Return the number of tasks on each node, distributed like srun does; equal neighbours are combined: "4(x2),3"."""
    each, more = divmod(tasks, len(on_nodes))
    counts: dict[str, int] = {}
    for rank, node in enumerate(on_nodes):
        counts[node] = counts.get(node, 0) + each + (rank < more)
    runs = [(count, len(list(equals))) for count, equals in groupby(counts.values())]
    return ",".join(f"{count}(x{length})" if length > 1 else str(count) for count, length in runs)
