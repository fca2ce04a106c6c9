"""Builds a site's pools from its settings and its allocation strategy."""

from collections.abc import Collection, Iterator

from corral.config import Settings
from corral.config.site import PoolStrategy
from corral.core.model.devices.device import Node
from corral.core.model.devices.set_apart import set_apart
from corral.core.model.errors import Refused
from corral.core.model.queues.queue import Pool
from corral.core.model.units import count_of


def pools_of(settings: Settings) -> tuple[Pool, ...]:
    """Return the pools. Their devices follow from the nodes. Raises Refused if the strategy does not allow the
    pools.
    """
    if settings.pools and settings.strategy is PoolStrategy.DYNAMIC:
        words = "allocation.strategy dynamic sets no GPUs apart, but pools are defined; use static or hybrid"
        raise Refused(placed(settings, "strategy", words))
    rest = [plan.name for plan in settings.pools if not plan.gpus]
    if len(rest) > 1:
        words = f"pools {' and '.join(rest)} all get the reserved part of the GPUs; set `gpus` in all but one"
        raise Refused(placed(settings, f"pool {rest[1]}", words))
    lending = [plan.name for plan in settings.pools if plan.lends]
    if lending and settings.strategy is PoolStrategy.STATIC:
        words = (
            f"pool {lending[0]}: it has `lends`, but allocation.strategy static lends nothing; use hybrid, or "
            "remove `lends`"
        )
        raise Refused(placed(settings, f"pool {lending[0]}", words))
    lend = settings.strategy is PoolStrategy.HYBRID
    return tuple(
        Pool(
            plan.name,
            plan.gpus,
            plan.users,
            plan.projects,
            lend if plan.lends is None else plan.lends,
            None if plan.gpus else settings.reserved_ratio,
        )
        for plan in settings.pools
    )


def idle_strategy(settings: Settings, nodes: Collection[Node] | None) -> Iterator[str]:
    """Yield a sentence if the strategy or the reserved part has no pool to act on, with the lines that would make
    one.
    """
    ratio = f"allocation.reserved_ratio {settings.reserved_ratio:g}"
    given, strategy = "reserved_ratio" in settings.places, settings.strategy
    if strategy is PoolStrategy.DYNAMIC:
        if given:
            lines = _lines(settings)
            yield f"{ratio} has no effect: allocation.strategy is dynamic; remove it, or use hybrid and {lines}"
    elif strategy is PoolStrategy.STATIC and not settings.pools and not given:
        lines = _lines(settings, f", gpus: [{_first_gpu(nodes)}]")
        yield f"allocation.strategy static has no effect yet: there is no pool; {lines}"
    elif all(plan.gpus for plan in settings.pools) and (given or (strategy and not settings.pools)):
        lines = _lines(settings)
        yield f"{ratio} has no effect yet: it is the part of a pool without `gpus`, and there is none; {lines}"
    elif nodes is not None:
        yield from _parts_of_nothing(settings, nodes)


def _parts_of_nothing(settings: Settings, nodes: Collection[Node]) -> Iterator[str]:
    """Yield a sentence for each pool whose part of all GPUs is less than one GPU."""
    there = {node.name: node for node in nodes}
    gpus = sum(device.parent_uuid is None for node in nodes for device in node.devices)
    pools = {pool.name: pool for pool in pools_of(settings)}
    for name, here in set_apart(pools, there).items():
        if pools[name].part is not None and gpus and not here:
            yield (
                f"pool {name}: allocation.reserved_ratio {settings.reserved_ratio:g} of {count_of(gpus, 'GPU')} "
                f"is less than one GPU; raise the ratio, or name its GPUs, such as gpus: [{_first_gpu(nodes)}]"
            )


def _lines(settings: Settings, gpus: str = "") -> str:
    """Return the lines that add a pool to the file, with a known project as its owner if there is one."""
    names = {plan.name for plan in settings.pools}
    name = next(
        each for each in ("reserved", *(f"reserved-{i}" for i in range(2, len(names) + 3))) if each not in names
    )
    known = settings.projects[0].name if settings.projects else None
    owner = "users: [alice]" if known is None else f"projects: [{known}]"
    pool = f"{{name: {name}{gpus}, {owner}}}"
    add = f"below `pools:` add `- {pool}`" if settings.pools else f"add `pools: [{pool}]`"
    return f"{add}, with its owner in place of {known or 'alice'}"


def _first_gpu(nodes: Collection[Node] | None) -> str:
    """Return a name for a GPU that exists here, or an example."""
    named = sorted((node.name, device.index) for node in nodes or () for device in node.devices)
    return "NODE:0" if not named else f"{named[0][0]}:{named[0][1]}"


def placed(settings: Settings, what: str, words: str) -> str:
    """Return the words, preceded by the file and line of the setting if it is in a file."""
    place = settings.places.get(what)
    return words if place is None else f"{place}: {words}"
