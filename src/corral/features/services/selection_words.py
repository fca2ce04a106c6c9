"""The printed text about the choice of a node. Users' scripts parse it by its words."""

from collections.abc import Sequence

from corral.features.services.idle_nodes import NodeGpuSummary

TITLE = "=== GPU Node Selection ==="
END = "=" * len(TITLE)


def selection_block(
    required_gpus: int,
    chosen: NodeGpuSummary | None,
    why_none: str = "",
    beside: Sequence[str] = (),
    *,
    required: bool = False,
) -> str:
    """Return the printed block about a choice; without a choice it says why, and what follows.

    `beside` are the nodes of further pods. Without a node that is `required`, nothing is deployed.
    """
    lines = [TITLE, f"Looking for node with {required_gpus} idle GPU(s)..."]
    if chosen is None:
        follows = (
            "Nothing is deployed: the choice of a node is required" if required else "Kubernetes decides where it runs"
        )
        lines += [f"No node selected: {why_none}", follows]
    else:
        lines += [
            f"Selected node '{chosen.node_name}' for deployment:",
            f"  - Allocatable GPUs: {chosen.allocatable_gpus}/{chosen.total_gpus}",
            f"  - Idle GPUs: {chosen.idle_gpu_count}",
            f"  - Avg Utilization: {chosen.avg_utilization:.1f}%",
            f"  - Avg Memory Usage: {chosen.avg_memory_usage:.1f}%",
            *(f"  - Beside it: {node}" for node in beside),
            f"✓ Selected node: {chosen.node_name}",
        ]
    return "\n".join([*lines, END])


def queued_block(required_gpus: int, job: str) -> str:
    """Return the printed block where a server's planner chooses; `job` is the name of the service's job."""
    lines = [TITLE, f"Looking for node with {required_gpus} idle GPU(s)..."]
    lines += [f"The planner of Corral's server chooses it, for the job {job}: corral ps, corral why"]
    return "\n".join([*lines, END])


def created_line(service: str, namespace: str, node_name: str | None) -> str:
    """The line after the block, once the service is created."""
    where = f" on node '{node_name}'" if node_name else ""
    return f"Created InferenceService '{service}' in namespace '{namespace}'{where}"
