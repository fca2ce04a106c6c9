"""Remarks for administrators about settings that are valid but have a problem on the current nodes."""

from collections.abc import Collection, Iterator, Sequence

from corral.config import Settings
from corral.core.control.site.pool_settings import idle_strategy, pools_of
from corral.core.model.devices.device import Device, Node
from corral.core.model.devices.set_apart import matches, parents
from corral.core.model.units import count_of
from corral.core.scheduling.contradictions import pool_clashes
from corral.core.sharing.arrange import idle_rules

_MOST_NAMED = 16


def site_remarks(settings: Settings, nodes: Collection[Node] | None) -> Iterator[str]:
    """Yield the remarks, a sentence each. With None nothing is checked against nodes."""
    yield from idle_strategy(settings, nodes)
    if nodes is None:
        return
    devices = _in_order(nodes)
    whole = [device for _, device in devices if device.parent_uuid is None]
    if settings.expected_gpus is not None and settings.expected_gpus != len(whole):
        yield f"cluster.total_gpus expects {settings.expected_gpus} GPUs, but there are {len(whole)}"
    there = _listed([_called(name, device, len(nodes)) for name, device in devices])
    of_node = {node.name: parents(node) for node in nodes}
    for plan in settings.pools:
        for gpu in plan.gpus:
            # The GPU may have failed, or may come later: that must not keep a server from starting.
            if not any(matches(gpu, name, one, of_node[name].get(one.parent_uuid or "")) for name, one in devices):
                yield (
                    f"pool {plan.name}: no GPU here matches {gpu} (there are {there}); a GPU that appears "
                    "later is set apart at once"
                )
    models = ", ".join(sorted({device.model for _, device in devices}))
    known = f"{there}: {models}" if devices else there
    for key, rules in (("sharing", settings.sharing), ("vgpu", settings.vgpu)):
        for which in idle_rules([which for which, _ in rules], [device for _, device in devices]):
            yield f"{key}: no GPU here is {which}, by index, UUID or model; the line has no effect (there are {known})"
    least = settings.min_compute
    if least is not None and not any((one.compute_capability or (0, 0)) >= least for _, one in devices):
        yield f"min_compute_capability {least[0]}.{least[1]} excludes every GPU here (there are {known})"
    unknown = [one for one in devices if one[1].parent_uuid is None and one[1].power_limit_mw is None]
    if settings.power_budget_w is not None and unknown:
        gpus = _listed([_called(name, device, len(nodes)) for name, device in unknown])
        yield f"power_budget_w: no job without --power-limit starts on these GPUs, whose power limit is unknown: {gpus}"


def clash_remarks(settings: Settings, nodes: Collection[Node]) -> Iterator[str]:
    """Yield the errors that these nodes would cause at a start, for pools that were valid on earlier nodes."""
    pools = {pool.name: pool for pool in pools_of(settings)}
    for clash in pool_clashes(pools, {node.name: node for node in nodes}):
        yield (
            f"{clash}. Until then every GPU that it may mean is set apart; only owners of both pools may use a "
            "device in two pools"
        )


def _in_order(nodes: Collection[Node]) -> list[tuple[str, Device]]:
    return [
        (node.name, device)
        for node in sorted(nodes, key=lambda node: node.name)
        for device in sorted(node.devices, key=lambda device: (device.index, device.uuid))
    ]


def _called(node: str, device: Device, nodes: int) -> str:
    return str(device.index) if nodes == 1 else f"{node}:{device.index}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    listed = ", ".join(names[:_MOST_NAMED]) or "none"
    return f"{listed} and {count_of(more, 'other')}" if more > 0 else listed
