"""Translate the resources of #SBATCH lines, which count tasks and nodes, into Corral's flags.

The tasks of one node become one member of a gang, with the GPUs, cores and memory of all of them. N nodes are a gang of
N members, each on a node of its own. A job on one node is not a gang.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from corral.cli.scripts.sbatch_constraint import constraint_flags
from corral.cli.scripts.sbatch_said import Said
from corral.cli.scripts.script_mistakes import ScriptMistakes
from corral.cli.site.site import Site
from corral.core.model.errors import Refused
from corral.core.model.units import DECIMAL, WHOLE, count_of, is_whole

Flags = tuple[list[str], str]
"""Flags, and the file and line from which they come."""

_GPUS = re.compile(rf"(?:([A-Za-z][\w.-]*):)?({WHOLE})")
_GRES = re.compile(rf"(?:gres[:/])?gpu(?:[:=]([A-Za-z][\w.-]*))?(?:[:=]({WHOLE}))?(?:\(.*\))?")
_RANGE = re.compile(rf"({WHOLE})(?:-({WHOLE}))?")
_MEMORY = re.compile(rf"({DECIMAL})([KMGTkmgt]?)[Bb]?")
_MIB_PER_UNIT = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024 * 1024}


def resource_flags(said: Mapping[str, Said], site: Site, mistakes: ScriptMistakes) -> tuple[tuple[Flags, ...], int]:
    """The flags for all resource options, and the number of tasks.

    Options that are invalid or contradict each other are mistakes. A contradiction names both options.
    """
    flags: list[Flags] = []
    tasks, gpus = 1, None
    if _all_readable(said, mistakes):
        with mistakes.noted():
            layout = _layout(said)
            gpus = _gpus(said, layout)
            layout = _with_tasks_by_gpus(said, layout, gpus)
            tasks = layout.tasks
            flags += _devices(said, layout, gpus)
            flags += _host(said, layout, 1 if gpus is None else gpus.on_node)
    if "constraint" in said:
        with mistakes.noted():
            asked = said["constraint"]
            flags.append((constraint_flags(asked, None if gpus is None else gpus.model, site), asked.where))
    return tuple(flags), tasks


def _all_readable(said: Mapping[str, Said], mistakes: ScriptMistakes) -> bool:
    """Whether each option is valid by itself. An invalid option would lead to false contradictions."""
    names = [name for name in said if name in _READERS]
    read = []
    for name in names:
        with mistakes.noted():
            read.append(_READERS[name](said[name]))
    return len(read) == len(names)


def _devices(said: Mapping[str, Said], layout: "_Layout", gpus: "_Gpus | None") -> list[Flags]:
    """The flags for the number and model of GPUs, and for the number of nodes."""
    flags: list[Flags] = []
    if "exclusive" in said:
        flags.append((_exclusive(said["exclusive"], gpus), said["exclusive"].where))
    elif gpus is not None:
        flags.append((["--gpus", str(gpus.on_node)], gpus.where))
    if gpus is not None and gpus.model is not None and "constraint" not in said:
        flags.append((["--gpu-model", gpus.model], gpus.where))
    if layout.nodes > 1:
        flags.append((["--gang", str(layout.nodes), "--spread"], layout.where))
    return flags


def _with_tasks_by_gpus(said: Mapping[str, Said], layout: "_Layout", gpus: "_Gpus | None") -> "_Layout":
    """The layout with the number of tasks that follows from the GPUs, if the GPUs determine it."""
    if gpus is None or layout.counted or "gpus-per-task" not in said:
        return layout
    each = _gpu_count(said["gpus-per-task"])[1]
    if each and gpus.on_node % each == 0:
        return replace(layout, tasks=layout.nodes * gpus.on_node // each)
    whole = next(said[name] for name in ("gpus", "gpus-per-node", "gres") if name in said)
    raise _contradiction(whole, said["gpus-per-task"], "the first must be a multiple of the second")


@dataclass(frozen=True)
class _Layout:
    """Nodes, and tasks on all of them. `counted` says whether the script gave the number of tasks."""

    nodes: int
    tasks: int
    counted: bool
    where: str

    @property
    def tasks_on_node(self) -> int:
        return -(-self.tasks // self.nodes)


def _layout(said: Mapping[str, Said]) -> _Layout:
    nodes, tasks, each = _nodes(said.get("nodes")), _count(said.get("ntasks")), _count(said.get("ntasks-per-node"))
    if nodes is None:
        nodes = -(-tasks // each) if tasks and each else 1
    total = tasks or nodes * (each or 1)
    if tasks and each and tasks > nodes * each:
        raise _contradiction(said["ntasks"], said["ntasks-per-node"], f"{nodes * each} tasks fit on {_on(nodes)}")
    if total < nodes:
        raise _contradiction(said["ntasks"], said["nodes"], f"{count_of(total, 'task')} cannot be on {nodes} nodes")
    where = said["nodes"].where if "nodes" in said else said["ntasks"].where if nodes > 1 else ""
    return _Layout(nodes, total, bool(tasks or each), where)


def _nodes(one: Said | None) -> int | None:
    """The number of nodes; the lower end of a range, because jobs do not grow here."""
    if one is None:
        return None
    found = _RANGE.fullmatch(one.value or "")
    if found is None or int(found[1]) < 1 or int(found[2] or found[1]) < int(found[1]):
        raise Refused(f"{one.where}: {one.value!r} is not a number of nodes; write one such as 2 or 2-4")
    return int(found[1])


def _count(one: Said | None) -> int | None:
    if one is None:
        return None
    if not is_whole(one.value or "") or int(one.value or "") < 1:
        raise Refused(f"{one.where}: {one.value!r} is not a whole number of 1 or more")
    return int(one.value or "")


@dataclass(frozen=True)
class _Gpus:
    """GPUs of one node, their model, and the option that states them."""

    on_node: int
    model: str | None
    where: str


def _gpus(said: Mapping[str, Said], layout: _Layout) -> _Gpus | None:
    """The GPUs of one node according to all options about GPUs. None if there is no such option."""
    totals: list[tuple[int, Said]] = []
    models: dict[str, Said] = {}
    times = {"gpus": 1, "gpus-per-node": layout.nodes, "gres": layout.nodes, "gpus-per-task": layout.tasks}
    if "gpus-per-task" in said and "gpus" in said and not layout.counted:
        times["gpus-per-task"] = 0  # then the number of GPUs determines the number of tasks
    for name, factor in times.items():
        found = None if name not in said else _gres(said[name]) if name == "gres" else _gpu_count(said[name])
        if found is None:
            continue
        model, count = found
        if factor:
            totals.append((count * factor, said[name]))
        if model is not None:
            models[model] = said[name]
    if len(models) > 1:
        raise Refused(
            f"{next(iter(models.values())).where}: all GPUs of a job are of one model; ask for one model only"
        )
    if not totals:
        return None
    total, first = totals[0]
    for other, one in totals[1:]:
        if other != total:
            raise _contradiction(first, one, f"one comes to {count_of(total, 'GPU')} and the other to {other}")
    if total % layout.nodes:
        raise Refused(
            f"{first.where}: {count_of(total, 'GPU')} cannot be divided evenly among {layout.nodes} nodes; ask for a "
            f"multiple of {layout.nodes}"
        )
    return _Gpus(total // layout.nodes, next(iter(models), None), first.where)


def _gpu_count(one: Said) -> tuple[str | None, int]:
    match = _GPUS.fullmatch(one.value or "")
    if match is None:
        raise Refused(f"{one.where}: {one.value!r} is not a number of GPUs; write one such as 2 or a100:2")
    return match[1], int(match[2])


def _gres(one: Said) -> tuple[str | None, int] | None:
    """The GPUs in a list of generic resources (GRES). Raises Refused for any other kind."""
    found: tuple[str | None, int] | None = None
    for kind in re.split(r",(?![^(]*\))", one.value or ""):
        match = _GRES.fullmatch(kind)
        if match is None and kind.lower() == "none":
            return None, 0
        if match is None:
            shared = kind.partition(":")[0] in ("shard", "mps")
            instead = "for a part of a GPU write #CORRAL --gpus 0.5" if shared else "write gpu[:MODEL][:NUMBER]"
            raise Refused(f"{one.where}: {kind!r} is not available here; {instead}")
        if found is not None:
            raise Refused(f"{one.where}: all GPUs of a job are of one model; ask for one model only")
        found = match[1], int(match[2] or 1)
    return found


def _exclusive(one: Said, gpus: "_Gpus | None") -> list[str]:
    """The flag for whole nodes, even if another option asks for fewer GPUs."""
    if one.value is not None:
        raise Refused(f"{one.where}: a node is either shared or not; remove {one.value!r}")
    if gpus is not None and not gpus.on_node:
        raise Refused(f"{one.where} takes all GPUs and {gpus.where} takes none; remove one of them")
    return ["--exclusive"]


def _host(said: Mapping[str, Said], layout: _Layout, gpus: int) -> list[Flags]:
    """The flags for cores, memory and disk of one node."""
    flags: list[Flags] = []
    by_task, by_gpu = _count(said.get("cpus-per-task")), _count(said.get("cpus-per-gpu"))
    if by_task and by_gpu:
        raise _contradiction(
            said["cpus-per-task"], said["cpus-per-gpu"], "cores are counted either per task or per GPU"
        )
    cores = by_gpu * gpus if by_gpu else (by_task or 1) * layout.tasks_on_node
    cores = max(cores, _count(said.get("mincpus")) or 0)
    for name in ("cpus-per-task", "cpus-per-gpu", "mincpus"):
        if name in said:
            flags.append((["--cpus", str(cores)], said[name].where))
            break
    memory = [said[name] for name in ("mem", "mem-per-cpu", "mem-per-gpu") if name in said]
    if len(memory) > 1:
        raise _contradiction(memory[0], memory[1], "memory is counted either per node, per core or per GPU")
    times = cores if "mem-per-cpu" in said else gpus if "mem-per-gpu" in said else 1
    for one in memory:
        if mib := _mib(one) * times:
            flags.append((["--host-memory", f"{mib}M"], one.where))
    if "tmp" in said and (mib := _mib(said["tmp"])):
        flags.append((["--disk", f"{mib}M"], said["tmp"].where))
    return flags


def _mib(one: Said) -> int:
    match = _MEMORY.fullmatch(one.value or "")
    if match is None:
        raise Refused(f"{one.where}: {one.value!r} is not an amount of MB; write one such as 4000 or 16G")
    return round(float(match[1]) * _MIB_PER_UNIT[match[2].upper()])


def _contradiction(first: Said, second: Said, why: str) -> Refused:
    return Refused(
        f"{first.where} and {second.option} (line {second.line}) contradict each other: {why}; "
        "remove one of them, or make them agree"
    )


def _on(nodes: int) -> str:
    return count_of(nodes, "node")


_READERS: Mapping[str, Callable[[Said], object]] = {
    **dict.fromkeys(("ntasks", "ntasks-per-node", "cpus-per-task", "cpus-per-gpu", "mincpus"), _count),
    **dict.fromkeys(("gpus", "gpus-per-node", "gpus-per-task"), _gpu_count),
    **dict.fromkeys(("mem", "mem-per-cpu", "mem-per-gpu", "tmp"), _mib),
    "nodes": _nodes,
    "gres": _gres,
}
"""The readers of options whose value does not depend on other options."""
