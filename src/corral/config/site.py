"""Read queues, projects, pools and quotas, and the sections that cluster configuration files commonly have.

Keys that have no effect yet are also checked, and are listed as having none.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corral.config.alert_plans import ALERT_KEYS, MOST_RULES, AlertPlan
from corral.config.groups import Key, line_of, lines_of, one, read_group, several
from corral.config.keys import keys_of, words_of
from corral.config.mistakes import Collecting
from corral.config.readers import (
    above_zero,
    number,
    one_of,
    pool_gpu,
)
from corral.core.model.errors import Refused
from corral.core.model.queues.queue import Project, Queue, Quota

if TYPE_CHECKING:
    from yaml.nodes import MappingNode, Node

_OF_THE_SITE = ""
"""Placeholder for the policy of a queue that names none, until the site's policy is known."""


class PoolStrategy(StrEnum):
    """How pools keep GPUs: for themselves, not at all, or with idle GPUs lent out."""

    STATIC = "static"
    DYNAMIC = "dynamic"
    HYBRID = "hybrid"


class BackfillName(StrEnum):
    """Which jobs may start before a job that cannot start yet: the values of `backfill`."""

    NONE = "none"
    EASY = "easy"
    CONSERVATIVE = "conservative"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """A pool as written in the settings. `gpus` are words of `pool_gpu`; () is the `reserved_ratio` of all GPUs.

    `lends` None follows the site's strategy.
    """

    name: str
    gpus: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    lends: bool | None = None


def _quota(path: Path, node: "Node") -> Quota:
    return Quota(**read_group(path, lines_of(node), _QUOTA, "quota.").values)


def _quota_of_project(path: Path, node: "Node") -> Quota:
    quota = _quota(path, node)
    if quota.borrow_milli is not None:
        raise Refused("a project cannot borrow; set borrow in the quota of a queue with a parent")
    return quota


def _user_weights(path: Path, node: "Node") -> tuple[tuple[str, float], ...]:
    names = [str(key.value) for key, _ in lines_of(node).value]
    weights = read_group(path, lines_of(node), {name: Key(name, one(above_zero)) for name in names}, "user_weights.")
    return tuple(sorted(weights.values.items()))


def read_user_quota(path: Path, node: "Node") -> Quota:
    """Read the quota of each user. Raises Refused, with file and line if a single line is wrong."""
    quota = _quota(path, node)
    if quota.borrow_milli is not None:
        raise Refused("a user cannot borrow; set borrow in the quota of a queue with a parent")
    if (quota.gpu_hours is None) != (quota.period_s is None):
        raise Refused("gpu_hours and period go together; set both or neither")
    return quota


def read_thresholds(path: Path, node: "Node") -> tuple[tuple[str, float], ...]:
    """Read the thresholds of device readings. Raises Refused with file and line."""
    found = read_group(path, lines_of(node), _THRESHOLDS, "monitoring.alert_thresholds.").values
    return tuple(sorted(found.items()))


_THRESHOLDS = {name: Key(name, one(number(0, 1000))) for name in ("temperature", "utilization", "memory", "power")}

_QUOTA = keys_of(Quota)
_QUEUE = keys_of(Queue, quota=_quota, backfill=one(one_of(BackfillName)))
_PROJECT = keys_of(Project, quota=_quota_of_project, user_weights=_user_weights)
_POOL = keys_of(PoolPlan, gpus=several(pool_gpu))

KEYS_OF_QUOTAS = words_of(_QUOTA)
"""The key in the file for each field of a quota."""

KEYS_OF_GROUPS = {
    name: words_of(keys)
    for name, keys in (("queues", _QUEUE), ("projects", _PROJECT), ("pools", _POOL), ("alerts", ALERT_KEYS))
}
"""The same for queues, projects, pools and alert rules."""


def read_queues(path: Path, node: "Node") -> tuple[Queue, ...]:
    """Read the list of queues; `with_policies` completes it. Raises Refused with file and line."""
    return tuple(_list_of(path, node, "queue", partial(Queue, policy=_OF_THE_SITE), _QUEUE))


def with_policies(queues: tuple[Queue, ...], algorithm: str) -> tuple[Queue, ...]:
    """The queues as read; those without a policy get `scheduling.algorithm`."""
    return tuple(replace(one, policy=algorithm) if one.policy == _OF_THE_SITE else one for one in queues)


def read_projects(path: Path, node: "Node") -> tuple[Project, ...]:
    """Read the list of projects. Raises Refused with file and line."""
    return tuple(_list_of(path, node, "project", Project, _PROJECT))


def read_pools(path: Path, node: "Node") -> tuple[PoolPlan, ...]:
    """Read the list of pools. Raises Refused with file and line."""
    return tuple(_list_of(path, node, "pool", PoolPlan, _POOL))


def read_alerts(path: Path, node: "Node") -> tuple[AlertPlan, ...]:
    """Read the list of alert rules. Raises Refused with file and line."""
    rules = tuple(_list_of(path, node, "alert", AlertPlan, ALERT_KEYS))
    if len(rules) > MOST_RULES:
        raise Refused(f"{len(rules)} rules are too many; at most {MOST_RULES} are allowed")
    return rules


def places_of(path: Path, root: "MappingNode") -> dict[str, str]:
    """File and line of each queue, project, pool and alert in a valid file: {"queue night": "config.yaml, line 7"}."""
    lists = {str(key.value): entries for key, entries in root.value}
    places = {}
    for kind in ("queue", "project", "pool", "alert"):
        for entry in getattr(lists.get(f"{kind}s"), "value", ()):
            name = next(str(value.value) for key, value in entry.value if key.value == "name")
            places[f"{kind} {name}"] = f"{path}, {line_of(entry)}"
    return places


def _list_of(path: Path, node: "Node", kind: str, make: Callable[..., Any], keys: Mapping[str, Key]) -> list[Any]:
    from yaml.nodes import SequenceNode

    if not isinstance(node, SequenceNode):
        raise Refused(f"write a list; begin each {kind} with `- name: ...`")
    made: dict[str, Any] = {}
    wrong = Collecting()
    for each in node.value:
        with wrong.at():
            found = read_group(path, lines_of(each), keys, f"{kind}.")
            name = found.values.get("name")
            if name is None:
                raise Refused(f"the {kind} in {line_of(each)} has no name")
            if name in made:
                raise Refused(f"the {kind} {name} is defined twice, again in {line_of(each)}; remove one of the two")
            made[name] = make(**found.values)
    wrong.tell()
    return list(made.values())
