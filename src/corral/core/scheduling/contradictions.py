"""Checks of a site's queues, quotas, projects and pools for settings that contradict each other."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from corral.core.model.devices.device import Node
from corral.core.model.devices.set_apart import is_index, set_apart
from corral.core.model.errors import nearest
from corral.core.model.queues.queue import Pool, Project, Queue, Quota
from corral.core.model.queues.quota import is_circular
from corral.core.model.units import format_memory, format_share
from corral.core.scheduling.policy import POLICIES, Policy

DEFAULT_PROJECT = "default"
"""The project of jobs that name none; it exists whether or not the site has set it up."""


class Contradiction(NamedTuple):
    """A setting that cannot be right: its `kind` (queue, project or pool), its name, and a text on what is wrong."""

    kind: str
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.text}"


def contradictions(
    queues: Mapping[str, Queue],
    projects: Mapping[str, Project],
    pools: Mapping[str, Pool],
    policies: Mapping[str, Policy] = POLICIES,
) -> tuple[Contradiction, ...]:
    """All contradictions; () if there are none."""
    found = [
        *_queues(queues, policies),
        *_weights(queues, projects),
        *_quotas(queues, projects),
        *_pools(pools, projects),
    ]
    return tuple(found)


def _queues(queues: Mapping[str, Queue], policies: Mapping[str, Policy]) -> Iterator[Contradiction]:
    for name, queue in sorted(queues.items()):
        if queue.policy not in policies:
            hint = nearest(queue.policy, policies)
            yield Contradiction("queue", name, f"there is no policy {queue.policy!r}; {hint}")
        if queue.parent is not None and queue.parent not in queues:
            hint = nearest(queue.parent, queues)
            yield Contradiction("queue", name, f"its parent {queue.parent!r} does not exist; {hint}")
        if is_circular(queues, name):
            yield Contradiction("queue", name, "it is its own ancestor; give it a parent that is not below it, or none")
        if queue.quota.borrow_milli and queue.parent is None:
            yield Contradiction("queue", name, "it may borrow, but it has no parent, so no other queue can lend to it")
        if queue.quota.borrow_milli and queue.quota.share_milli is None:
            yield Contradiction("queue", name, "it may borrow, but its quota of GPUs is not limited; limit it")


def _weights(queues: Mapping[str, Queue], projects: Mapping[str, Project]) -> Iterator[Contradiction]:
    weights = [("queue", name, queue.weight) for name, queue in sorted(queues.items())]
    weights += [("project", name, project.weight) for name, project in sorted(projects.items())]
    for kind, name, weight in weights:
        if not weight > 0:
            yield Contradiction(kind, name, f"its weight is {weight:g}; it must be above 0")
    for name, project in sorted(projects.items()):
        for user, weight in project.user_weights:
            if not weight > 0:
                yield Contradiction("project", name, f"the weight of {user} is {weight:g}; it must be above 0")
            if project.users and user not in project.users:
                hint = nearest(user, project.users)
                yield Contradiction("project", name, f"{user} has a weight in it but is not a member; {hint}")


def _quotas(queues: Mapping[str, Queue], projects: Mapping[str, Project]) -> Iterator[Contradiction]:
    holders = [("queue", name, one.quota) for name, one in sorted(queues.items())]
    holders += [("project", name, one.quota) for name, one in sorted(projects.items())]
    for kind, name, quota in holders:
        for limit in Quota.__slots__:
            value = getattr(quota, limit)
            if value is not None and value < 0:
                yield Contradiction(kind, name, f"its limit {limit} is {value:g}; the least is 0")
        if (quota.gpu_hours is None) != (quota.period_s is None):
            given, missing = ("gpu_hours", "period") if quota.period_s is None else ("period", "gpu_hours")
            yield Contradiction(kind, name, f"its quota has {given} without {missing}; give both, or neither")
    for name, queue in sorted(queues.items()):
        above = queues.get(queue.parent or "")
        if above is not None:
            yield from _above(name, queue, above)


def _above(name: str, queue: Queue, above: Queue) -> Iterator[Contradiction]:
    """The contradictions of a queue whose quota exceeds that of its parent."""
    for limit in ("devices", "share_milli", "memory_mib", "running", "waiting"):
        own, most = getattr(queue.quota, limit), getattr(above.quota, limit)
        if own is not None and most is not None and own > most:
            text = (
                f"its quota of {_amount(limit, own)} is more than the {_amount(limit, most)} of {above.name} above it"
            )
            yield Contradiction("queue", name, text)


def _amount(limit: str, value: int) -> str:
    """A limit as it is written in the settings: "gpus: 4", "running: 10"."""
    if limit == "share_milli":
        return f"gpus: {format_share(value)}"
    return f"memory: {format_memory(value)}" if limit == "memory_mib" else f"{limit}: {value}"


def _pools(pools: Mapping[str, Pool], projects: Mapping[str, Project]) -> Iterator[Contradiction]:
    owner: dict[str, str] = {}
    for name, pool in sorted(pools.items()):
        if not pool.users and not pool.projects:
            yield Contradiction("pool", name, "it belongs to nobody; name users or projects")
        for project in pool.projects:
            if projects and project not in (*projects, DEFAULT_PROJECT):
                hint = nearest(project, (*projects, DEFAULT_PROJECT))
                yield Contradiction("pool", name, f"its project {project!r} does not exist; {hint}")
        for gpu in pool.gpus:
            if gpu in owner:
                yield Contradiction("pool", name, f"device {gpu} is in pool {owner[gpu]} already")
            owner.setdefault(gpu, name)


def pool_clashes(pools: Mapping[str, Pool], nodes: Mapping[str, Node], silent: int = 0) -> tuple[Contradiction, ...]:
    """The contradictions between pools and these nodes, besides `silent` nodes of unknown content; () if none.

    A device may not be in two pools. An index alone is ambiguous if several nodes exist.
    """
    found: list[Contradiction] = []
    several = len(nodes) + silent > 1
    for name, pool in sorted(pools.items()):
        indices = [gpu for gpu in pool.gpus if several and is_index(gpu)]
        if indices:
            host = min(nodes, default="NODE")
            instead = ", ".join(f"{host}:{index}" for index in indices)
            text = (
                f"GPU {', '.join(indices)} may be of any of the {len(nodes) + silent} nodes; "
                f"write the node too, such as gpus: [{instead}]"
            )
            found.append(Contradiction("pool", name, text))
    owner: dict[str, str] = {}
    for name, here in sorted(set_apart(pools, nodes).items()):
        both: dict[str, list[str]] = {}
        for host in sorted(here):
            for uuid in here[host]:
                if owner.setdefault(uuid, name) != name:
                    both.setdefault(owner[uuid], []).append(uuid)
        for other, uuids in both.items():
            more = f" and {len(uuids) - 1} more" if len(uuids) > 1 else ""
            found.append(Contradiction("pool", name, f"device {uuids[0]}{more} is in pool {other} already"))
    return tuple(found)
