"""Whether what a site has set up makes sense: queues, quotas, projects and pools that do not contradict each other."""

from collections.abc import Iterator, Mapping

from corral.model.errors import nearest
from corral.model.queue import Pool, Project, Queue, Quota
from corral.scheduling.policy import POLICIES, Policy


def contradictions(
    queues: Mapping[str, Queue],
    projects: Mapping[str, Project],
    pools: Mapping[str, Pool],
    policies: Mapping[str, Policy] = POLICIES,
) -> tuple[str, ...]:
    """Everything that cannot be meant so, a sentence each; () when all is well."""
    found = [*_queues(queues, policies), *_weights(queues, projects), *_quotas(queues, projects), *_pools(pools)]
    return tuple(found)


def _queues(queues: Mapping[str, Queue], policies: Mapping[str, Policy]) -> Iterator[str]:
    for name, queue in sorted(queues.items()):
        if queue.policy not in policies:
            yield f"queue {name}: there is no policy {queue.policy!r}; {nearest(queue.policy, policies)}"
        if queue.parent is not None and queue.parent not in queues:
            yield f"queue {name}: its parent {queue.parent!r} is not there; {nearest(queue.parent, queues)}"
        if _circular(name, queues):
            yield f"queue {name}: it stands above itself; give it a parent that is not below it, or none"
        if queue.quota.borrow_milli and queue.parent is None:
            yield f"queue {name}: it may borrow, but without a parent there is nobody beside it to lend"
        if queue.quota.borrow_milli and queue.quota.share_milli is None:
            yield f"queue {name}: it may borrow above a share that is not limited; give it one"


def _circular(name: str, queues: Mapping[str, Queue]) -> bool:
    seen = [name]
    while (queue := queues.get(seen[-1])) is not None and queue.parent is not None:
        if queue.parent in seen:
            return True
        seen.append(queue.parent)
    return False


def _weights(queues: Mapping[str, Queue], projects: Mapping[str, Project]) -> Iterator[str]:
    weights = [("queue", name, queue.weight) for name, queue in sorted(queues.items())]
    weights += [("project", name, project.weight) for name, project in sorted(projects.items())]
    for kind, name, weight in weights:
        if not weight > 0:
            yield f"{kind} {name}: its weight is {weight:g}; it must be above 0"


def _quotas(queues: Mapping[str, Queue], projects: Mapping[str, Project]) -> Iterator[str]:
    holders = [("queue", name, one.quota) for name, one in sorted(queues.items())]
    holders += [("project", name, one.quota) for name, one in sorted(projects.items())]
    for kind, name, quota in holders:
        for limit in Quota.__slots__:
            value = getattr(quota, limit)
            if value is not None and value < 0:
                yield f"{kind} {name}: its limit {limit} is {value:g}; the least is 0"
        if (quota.gpu_hours is None) != (quota.period_s is None):
            yield f"{kind} {name}: GPU-hours need a period and a period GPU-hours"
    for name, queue in sorted(queues.items()):
        above = queues.get(queue.parent or "")
        if above is not None:
            yield from _above(name, queue, above)


def _above(name: str, queue: Queue, above: Queue) -> Iterator[str]:
    """A queue cannot have for itself what the queue above it has not."""
    for limit in ("devices", "share_milli", "memory_mib", "running", "waiting"):
        own, most = getattr(queue.quota, limit), getattr(above.quota, limit)
        if own is not None and most is not None and own > most:
            yield f"queue {name}: its {limit} of {own} is more than the {most} of {above.name} above it"


def _pools(pools: Mapping[str, Pool]) -> Iterator[str]:
    owner: dict[str, str] = {}
    for name, pool in sorted(pools.items()):
        if not pool.users and not pool.projects:
            yield f"pool {name}: it belongs to nobody; name users or projects"
        for uuid in pool.devices:
            if uuid in owner:
                yield f"pool {name}: device {uuid} is in pool {owner[uuid]} already"
            owner.setdefault(uuid, name)
