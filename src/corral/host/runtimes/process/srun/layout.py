"""The assignment of a step's tasks to members, and the environment of each task. Pure."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from .options import BadUsage, Options

_PLACEHOLDER = re.compile(r"%(\d{0,2})([%jJAaxsNnt])")
_OF_A_TASK = re.compile(r"(?:^|[^%])(?:%%)*%\d{0,2}[Nnt]")
_KEPT = ("CORRAL_", "CUDA_", "MASTER_", "SLURM_")
_NONE = "none"
_GPU_VARIABLE = "CORRAL_GPU_VARIABLE"
"""The name of the variable with the UUIDs of the job's devices, if it is not CUDA's."""


class Task(NamedTuple):
    """One process of a step. `output` and `error` are files that it writes itself; None if its output goes to srun."""

    rank: int
    member: int
    env: dict[str, str]
    output: str | None
    error: str | None


def devices_variable(env: Mapping[str, str]) -> str:
    """Return the name of the variable with the UUIDs of a job's devices, separated by commas."""
    return env.get(_GPU_VARIABLE) or "CUDA_VISIBLE_DEVICES"


def members_of(env: Mapping[str, str]) -> list[str]:
    """Return the node of each member of this job, in the order of their ranks. Raises BadUsage outside of a job."""
    if not env.get("CORRAL_JOB_ID"):
        raise BadUsage(
            "this is Corral's srun, which runs a command on the members of a job from within its script; "
            "submit the script with corral submit, or run a command with corral run"
        )
    if "CORRAL_GANG_SIZE" not in env:
        return [env.get("CORRAL_NODE") or "localhost"]
    if "CORRAL_SRUN_SOCKET" not in env:
        raise BadUsage(
            f"rank {env.get('CORRAL_RANK')} of {env['CORRAL_GANG_SIZE']}: the job's command runs on every member by "
            "itself; srun reaches the others from a script, which is submitted without -- before it"
        )
    return env.get("CORRAL_NODES", "").split(",")


def lay_out(nodes: list[str], options: Options, env: Mapping[str, str]) -> list[Task]:
    """Return the tasks of a step, in blocks: those of a member have consecutive ranks. Raises BadUsage."""
    members = _chosen(nodes, options)
    counts = _counts(len(members), len(nodes), options, env)
    members = members[: len(counts)]
    homes = [member for member, count in zip(members, counts, strict=True) for _ in range(count)]
    used = list(dict.fromkeys(nodes[member] for member in homes))
    on_nodes = [nodes[member] for member in homes]
    tasks = []
    for rank, member in enumerate(homes):
        node = nodes[member]
        place = {
            "RANK": rank,
            "WORLD_SIZE": len(homes),
            "LOCAL_RANK": on_nodes[:rank].count(node),
            "LOCAL_WORLD_SIZE": on_nodes.count(node),
            "NODE_RANK": used.index(node),
        }
        slurm = {
            "SLURM_PROCID": rank,
            "SLURM_NTASKS": len(homes),
            "SLURM_LOCALID": place["LOCAL_RANK"],
            "SLURM_NODEID": place["NODE_RANK"],
            "SLURM_NNODES": len(used),
            "SLURM_STEP_NUM_TASKS": len(homes),
            "SLURM_STEP_NUM_NODES": len(used),
        }
        variables = {name: str(value) for name, value in {**place, **slurm}.items()}
        variables |= {"SLURM_STEP_NODELIST": ",".join(used), "SLURMD_NODENAME": node}
        files = [_file(one, env, place, node) for one in (options.output, options.error)]
        tasks.append(Task(rank, member, variables, *files))
    return tasks


def _chosen(nodes: list[str], options: Options) -> list[int]:
    """Return the ranks of the members that the options allow. Raises BadUsage."""
    unknown = [name for name in options.nodelist or () if name not in nodes]
    if unknown:
        raise BadUsage(f"--nodelist: {unknown[0]:.100} is no node of this job, which has {', '.join(nodes)}")
    members = [rank for rank, node in enumerate(nodes) if options.nodelist is None or node in options.nodelist]
    if options.nodes is not None and options.nodes > len(members):
        raise BadUsage(f"--nodes: {options.nodes} are asked for, and the job has {len(members)}")
    return members[: options.nodes]


def _counts(members: int, of: int, options: Options, env: Mapping[str, str]) -> list[int]:
    """Return the number of tasks of each member; the first members have one more if the tasks do not divide evenly."""
    each = options.ntasks_per_node
    total = options.ntasks
    if total is None and each is not None:
        total = each * members
    if total is None:
        asked = env.get("SLURM_NTASKS", "")
        whole = int(asked) if asked.isdecimal() and len(asked) < 7 else of
        total = max(1, whole * members // of) if members < of else max(whole, members)
    members = min(members, total)
    if each is not None and total > each * members:
        raise BadUsage(f"--ntasks: {total} tasks are asked for, and {each * members} fit with --ntasks-per-node {each}")
    return [total // members + (rank < total % members) for rank in range(members)]


def _file(pattern: str | None, env: Mapping[str, str], place: Mapping[str, int], node: str) -> str | None:
    """Return the file that a task writes itself: its name differs from task to task. None if srun writes the output."""
    if pattern is None or pattern == "all":
        return None
    if pattern == _NONE:
        return "/dev/null"
    return filled(pattern, env, place, node) if _OF_A_TASK.search(pattern) else None


def common_file(pattern: str | None, env: Mapping[str, str]) -> str | None:
    """Return the file that srun writes for all tasks; None if each task has its own, or no file is requested."""
    if pattern is None or pattern in ("all", _NONE) or _OF_A_TASK.search(pattern):
        return None
    return filled(pattern, env, {}, "")


def filled(pattern: str, env: Mapping[str, str], place: Mapping[str, int], node: str) -> str:
    """Return the path of a pattern as in sbatch(1). A number after % pads with zeros."""
    job_id = env.get("CORRAL_JOB_ID", "")
    words = {
        "%": "%",
        "j": job_id,
        "J": job_id,
        "A": env.get("CORRAL_ARRAY_ID", job_id),
        "a": env.get("CORRAL_ARRAY_INDEX", "4294967294"),
        "x": env.get("CORRAL_JOB_NAME", ""),
        "s": "0",
        "N": node.partition(".")[0],
        "n": str(place.get("NODE_RANK", 0)),
        "t": str(place.get("RANK", 0)),
    }
    return _PLACEHOLDER.sub(lambda found: words[found[2]].rjust(int(found[1] or 0), "0"), pattern)


def exported(option: str | None, env: Mapping[str, str]) -> dict[str, str]:
    """Return those variables of srun that tasks get, by --export: ALL, NONE, names and settings."""
    always = ("PATH", devices_variable(env))
    kept = {name: value for name, value in env.items() if name in always or name.startswith(_KEPT)}
    if option is None:
        return dict(env)
    variables = kept
    for one in option.split(","):
        name, equals, value = one.partition("=")
        if name == "ALL" and not equals:
            variables = {**env, **variables}
        elif equals and name:
            variables[name] = value
        elif name in env:
            variables[name] = env[name]
    return variables


def devices_of(task: int, each: int, visible: str) -> str:
    """Return the devices of a member's n-th task, if each task has `each` of its own. Raises BadUsage."""
    uuids = [uuid for uuid in visible.split(",") if uuid]
    mine = uuids[task * each : (task + 1) * each]
    if len(mine) < each:
        raise BadUsage(f"--gpus-per-task {each}: the member has {len(uuids)}, too few for {task + 1} tasks")
    return ",".join(mine)
