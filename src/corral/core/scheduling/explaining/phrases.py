"""The names of requests, devices and jobs in a sentence."""

from collections.abc import Sequence

from corral.core.model.audience import Audience, Option
from corral.core.model.jobs.job import Job, Request
from corral.core.model.placing.placement_rules import Selector
from corral.core.model.placing.split import Strategy
from corral.core.model.units import MILLI_PER_DEVICE, count_of, format_memory, format_share

TITLE_LENGTH = 40
"""The most characters of a job's name that a sentence shows."""

NODES_NAMED = 4
"""The most nodes of a list that a sentence names."""

SELECTORS_NAMED = 3
SELECTORS_LENGTH = 200
"""The most selectors and characters of a node affinity that a sentence shows."""

_CONDITIONS = (
    (Option.DEVICE, "device_uuids"),
    (Option.NODE, "named_nodes"),
    (Option.GPU_MODEL, "models"),
    (Option.MIN_MEMORY, "min_memory_mib"),
    (Option.MIN_COMPUTE, "min_compute"),
)
_VENDORS = ("NVIDIA ", "AMD ", "Intel ")


def short_model(model: str) -> str:
    """The device model without its vendor: "NVIDIA A100-SXM4-80GB" -> "A100-SXM4-80GB"."""
    for vendor in _VENDORS:
        if model.startswith(vendor):
            return model.removeprefix(vendor).removeprefix("GeForce ")
    return model


def need_of(request: Request) -> str:
    """The request in words: "4 whole A100 with at least 40G each on one node"."""
    if request.devices == 0:
        need = (" and ".join(_host_parts(request)) or "no GPU") + _places(request)
    else:
        need = _devices(request) + _conditions(request)
        extra = " and ".join(_host_parts(request))
        need += f" and {extra}" if extra else ""
    if request.gang_size == 1:
        return need
    where = " on one node" if request.one_node else " on a node each" if request.spread else ""
    return f"{request.gang_size} times {need}{where}"


def title_of(job: Job) -> str:
    """The job's title, shortened to TITLE_LENGTH."""
    return job.title if len(job.title) <= TITLE_LENGTH else job.title[: TITLE_LENGTH - 1] + "…"


def job_called(job: Job) -> str:
    """The job's name and id: "train (job 12)"."""
    return f"{title_of(job)} (job {job.id})" if job.spec.name else job.title


def jobs_called(ids: list[str]) -> str:
    """A few job ids: "job 7", "jobs 7 and 9", "jobs 7, 9 and 3 more"."""
    shown = [*ids[:2], f"{len(ids) - 2} more"] if len(ids) > 3 else ids
    return f"{'job' if len(ids) == 1 else 'jobs'} {_listed(shown, 'and')}"


def flags_of(request: Request, asked: Request | None = None, audience: Audience = Audience.COMMAND_LINE) -> str:
    """The request in the options of the audience: "--gpus 2 --min-memory 20G", "nvidia.com/gpu: 2".

    If `asked` is the larger request that this one replaces, the text ends with what to leave out: "--gpus 1 without
    --device".
    """
    compute = None if request.min_compute == request.site_min_compute else request.min_compute
    named = (
        (Option.NODE, ",".join(request.named_nodes)),
        (Option.EXCLUDE, ",".join(request.excluded_nodes)),
        (Option.GPU_MODEL, ",".join(request.models)),
        (Option.MIN_MEMORY, "" if request.min_memory_mib is None else format_memory(request.min_memory_mib)),
        (Option.MIN_COMPUTE, "" if compute is None else f"{compute[0]}.{compute[1]}"),
        (Option.GANG, str(request.gang_size) if request.gang_size > 1 else ""),
    )
    flags = [*_amounts(request), *(flag for flag in named if flag[1])]
    asked = asked or request
    conditions = [flag for flag, field in _CONDITIONS if getattr(request, field) != getattr(asked, field)]
    if request.gang_size == 1 < asked.gang_size:
        conditions.append(Option.GANG)
    left_out = [audience.called(flag) for flag in conditions]
    between = " " if audience is Audience.COMMAND_LINE else ", "
    return between.join(audience.option(*flag) for flag in flags) + (
        f" without {' and '.join(left_out)}" if left_out else ""
    )


def _amounts(request: Request) -> list[tuple[Option, str]]:
    """The options for amounts, each with its value: --gpus 2, --gpus 0.5 --gpu-mem 20G, --mig 1g.10gb."""
    if request.mig_profile is not None:
        return [(Option.GPUS, str(request.devices)), (Option.MIG, request.mig_profile)]
    flags = []
    if request.split_milli is not None:
        flags.append((Option.GPUS, format_share(request.split_milli)))
        if request.split is Strategy.EVENLY and request.split_milli > MILLI_PER_DEVICE:
            flags.append((Option.SPLIT, "evenly"))
    elif request.whole or request.memory_mib is None:
        flags.append((Option.GPUS, format_share(request.devices * request.share_milli)))
    if request.memory_mib is not None:
        flags.append((Option.GPU_MEM, format_memory(request.memory_mib)))
    return flags


def _devices(request: Request) -> str:
    if request.mig_profile is not None:
        return f"{count_of(request.devices, 'MIG slice')} {request.mig_profile}"
    kind = " or ".join(request.models) or ("GPU" if request.devices == 1 else "GPUs")
    if request.device_uuids:
        return f"{'the GPU' if request.devices == 1 else 'the GPUs'} {', '.join(request.device_uuids)}"
    if request.whole:
        return f"{request.devices} {'whole ' if request.models else ''}{kind}"
    shared = f" shared by {request.means}" if request.means is not None else ""
    if request.share_of_memory:
        return f"a part of {'a' if request.devices == 1 else request.devices} {kind}{shared}"
    if request.split_milli is not None and request.split_milli > MILLI_PER_DEVICE:
        how = "on one node, whole ones first" if request.split is Strategy.FILL else "in parts of one node"
        return f"{format_share(request.split_milli)} {kind}s {how}{shared}"
    return f"{format_share(request.share_milli)} of {'a' if request.devices == 1 else request.devices} {kind}{shared}"


def _conditions(request: Request) -> str:
    words = []
    if request.min_memory_mib is not None:
        words.append(f"with at least {format_memory(request.min_memory_mib)}{' each' if request.devices > 1 else ''}")
    if request.memory_mib is not None:
        words.append(f"with {format_memory(request.memory_mib)} free{' on each' if request.devices > 1 else ''}")
    if request.min_compute is not None:
        words.append(f"of compute capability {request.min_compute[0]}.{request.min_compute[1]} or higher")
    if request.offered_as is not None and not request.whole:
        words.append(f"by {request.offered_as}")
    if request.power_limit_w is not None:
        words.append(f"limited to {request.power_limit_w} W{' each' if request.devices > 1 else ''}")
    if request.labels:
        words.append(f"on a node with {', '.join(f'{key}={value}' for key, value in request.labels)}")
    if request.rules is not None and request.rules.nodes:
        words.append(f"on a node with {selectors_called(request.rules.nodes)}")
    return "".join(f" {word}" for word in words) + _places(request)


def _places(request: Request) -> str:
    """The nodes that the request names or excludes: " on node a or b", " not on node c"."""
    words = ""
    if request.named_nodes:
        words += f" on node {nodes_called(request.named_nodes, 'or')}"
    if request.excluded_nodes:
        words += f" not on node {nodes_called(request.excluded_nodes, 'or')}"
    return words


def nodes_called(names: Sequence[str], joint: str = "and") -> str:
    """A few names: "a", "a or b", "a, b, c, d or 3 more"."""
    shown = list(names[:NODES_NAMED])
    if len(names) > NODES_NAMED:
        shown.append(f"{len(names) - NODES_NAMED} more")
    return _listed(shown, joint)


def _listed(names: Sequence[str], joint: str) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {joint} {names[-1]}"


def selectors_called(selectors: Sequence[Selector]) -> str:
    """The selectors in words, of which a node must match one: "gpu=a100 and zone in (a, b), or no spot"."""
    named = [" and ".join(map(str, one)) or "anything" for one in selectors[:SELECTORS_NAMED]]
    more = len(selectors) - SELECTORS_NAMED
    text = ", or ".join([*named, f"{more} more"] if more > 0 else named)
    return text if len(text) <= SELECTORS_LENGTH else text[: SELECTORS_LENGTH - 1] + "…"


def _host_parts(request: Request) -> list[str]:
    parts = []
    if request.cpu_milli:
        parts.append(count_of_cpus(request.cpu_milli))
    if request.host_memory_mib:
        parts.append(f"{format_memory(request.host_memory_mib)} of host memory")
    if request.disk_mib:
        parts.append(f"{format_memory(request.disk_mib)} of disk")
    return parts


def count_of_cpus(cpu_milli: int) -> str:
    """A number of CPUs, given in thousandths: "1 CPU", "1.5 CPUs"."""
    return count_of(cpu_milli // 1000, "CPU") if cpu_milli % 1000 == 0 else f"{cpu_milli / 1000:g} CPUs"
