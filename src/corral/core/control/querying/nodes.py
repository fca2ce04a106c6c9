"""The rows of `corral nodes`: every existing or expected node, and whether jobs may start on it."""

from collections.abc import Iterable

from corral.core.model.answers.site import NodeRow
from corral.core.model.devices.device import NodeCordon, NodeStatus
from corral.core.model.units import count_of
from corral.core.model.view import View
from corral.core.ports.telemetry import NodeContact


def node_rows(view: View, contacts: Iterable[NodeContact]) -> list[NodeRow]:
    """Every node, by name: those with an inventory, those that should answer, and those that are cordoned."""
    seen = {contact.node: contact.last_seen_at for contact in contacts}
    names = sorted({*view.nodes, *seen, *view.silences})
    return [_row(view, name, seen.get(name)) for name in names]


def _row(view: View, name: str, last_seen_at: float | None) -> NodeRow:
    node, status = view.nodes.get(name), view.status(name)
    whole = () if node is None else [device for device in node.devices if device.parent_uuid is None]
    return NodeRow(
        name=name,
        state=status.value,
        reason=_reason(view, name, status),
        last_seen_at=last_seen_at,
        devices=len(whole),
        cpus=None if node is None else node.cpu_milli / 1000,
        memory_mib=None if node is None else node.memory_mib,
        labels={} if node is None else dict(node.labels),
        boot_id=None if node is None else node.boot_id,
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
