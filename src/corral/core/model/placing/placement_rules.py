"""Placement rules beyond amounts: taints and tolerations, labels of nodes, and what already runs there.

The rules have the meaning of Kubernetes, with nodes as the only topology: two jobs are together if they share a node.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

Labels = tuple[tuple[str, str], ...]

HOSTNAME_LABEL = "kubernetes.io/hostname"
"""The label that identifies a node. If a node does not carry it, its value is the node's name."""

NAME_FIELD = "metadata.name"
"""The key that means the name of the node itself in an expression."""

NAME_TAG = "job name"
"""The tag that has the name of every job. No label of Kubernetes can have this key."""

NAMESPACE_TAG = "pod namespace"
"""The tag that has the namespace of a job that is a pod."""


class TaintEffect(StrEnum):
    """The effect of a taint on jobs that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Taint(NamedTuple):
    """A mark on a node that keeps off jobs that do not tolerate it."""

    key: str
    value: str = ""
    effect: TaintEffect = TaintEffect.NO_SCHEDULE

    def __str__(self) -> str:
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A set of taints that a job tolerates. `key` "" is any key, `value` None any value, `effect` None any effect."""

    key: str = ""
    value: str | None = None
    effect: TaintEffect | None = None

    def covers(self, taint: Taint) -> bool:
        """Whether this toleration covers the taint."""
        return (
            self.key in ("", taint.key)
            and self.value in (None, taint.value)
            and (self.effect is None or self.effect is taint.effect)
        )


class Operator(StrEnum):
    """How an expression compares the value of a label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


@dataclass(frozen=True, slots=True)
class LabelExpression:
    """A condition on one label. `Gt` and `Lt` compare integers. A missing label is not in any list."""

    key: str
    operator: Operator = Operator.EXISTS
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels meet the condition."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
        number, bound = _integer(value), _integer(self.values[0] if self.values else None)
        if number is None or bound is None:
            return False
        return number > bound if self.operator is Operator.GREATER else number < bound

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"no {self.key}"
            case Operator.GREATER | Operator.LESS:
                return f"{self.key} {'>' if self.operator is Operator.GREATER else '<'} {', '.join(self.values)}"
        if len(self.values) == 1:
            return f"{self.key}{'=' if self.operator is Operator.IN else '!='}{self.values[0]}"
        return f"{self.key} {'' if self.operator is Operator.IN else 'not '}in ({', '.join(self.values)})"


Selector = tuple[LabelExpression, ...]
"""Conditions that must all hold; () always holds."""


@dataclass(frozen=True, slots=True)
class PreferredNodes:
    """Nodes that a job prefers: `weight`, from 1 to 100, is added up over all selectors that hold."""

    weight: int
    selector: Selector


@dataclass(frozen=True, slots=True)
class PreferredNeighbours:
    """Jobs that a job prefers to share a node with, or to avoid if `weight` is negative."""

    weight: int
    selector: Selector


@dataclass(frozen=True, slots=True)
class Spread:
    """A spread: no node may run more than `max_skew` more of the selected jobs than the node with the fewest.

    If fewer than `min_nodes` nodes could serve the job, the fewest count as 0. Without `required` it is only a
    preference.
    """

    selector: Selector
    max_skew: int = 1
    min_nodes: int = 1
    required: bool = True


@dataclass(frozen=True, slots=True)
class IdleFirst:
    """A ranking: of the nodes with enough idle devices that with the most comes first, then the least used one.

    A device is idle if nothing has it, and if its use is below both thresholds, in percent. A node whose free devices
    have no readings has as many idle ones as free ones. If no node has enough, the ranking of the queue decides.

    Attributes:
        keeps_whole: nodes in use come before those that are free as a whole, if the job leaves a part of these. Among
            equals that with the fewest idle devices comes first.
    """

    utilization_pct: float = 30.0
    memory_pct: float = 50.0
    keeps_whole: bool = False


@dataclass(frozen=True, slots=True)
class PlacementRules:
    """A job's demands on its node besides amounts.

    Attributes:
        tolerations: taints that do not keep it off.
        nodes: selectors, one of which the node must meet; () is any node.
        preferred_nodes: of nodes that fit, those with the most weight come first.
        tags: the tags by which rules of other jobs select it.
        near: for each selector, some job on its node must match it. Exception: no job anywhere matches, and this job
            would itself.
        apart: no job on its node may match any of these, nor any job that comes later.
        preferred_neighbours: like `preferred_nodes`, but by the jobs on the node.
        spread: how evenly jobs are to be spread over nodes.
        idle_first: the ranking of nodes by their idle devices; None leaves it to the queue.
    """

    tolerations: tuple[Toleration, ...] = ()
    nodes: tuple[Selector, ...] = ()
    preferred_nodes: tuple[PreferredNodes, ...] = ()
    tags: Labels = ()
    near: tuple[Selector, ...] = ()
    apart: tuple[Selector, ...] = ()
    preferred_neighbours: tuple[PreferredNeighbours, ...] = ()
    spread: tuple[Spread, ...] = ()
    idle_first: IdleFirst | None = None

    @property
    def by_name(self) -> bool:
        """Whether the rules use names of nodes, so that nodes in equal states may get different answers."""
        selectors = (*self.nodes, *(one.selector for one in self.preferred_nodes))
        return any(one.key in (HOSTNAME_LABEL, NAME_FIELD) for selector in selectors for one in selector)

    @property
    def by_neighbours(self) -> bool:
        """Whether the answer for a node depends on what runs there."""
        return bool(self.near or self.apart or self.preferred_neighbours or self.spread)

    def without_neighbours(self) -> "PlacementRules":
        """The same rules as if nothing ran anywhere."""
        return replace(self, near=(), apart=(), preferred_neighbours=(), spread=())


@dataclass(frozen=True, slots=True)
class Resident:
    """A workload on a node, for the rules of others: its tags, and the selectors of jobs that must not come to it.

    A `foreign` workload is not a job: its end is not known, and no eviction ends it.
    """

    tags: Labels = ()
    apart: tuple[Selector, ...] = ()
    foreign: bool = False


def untolerated(taints: tuple[Taint, ...], rules: PlacementRules | None) -> Taint | None:
    """The first taint that keeps a job with these rules off a node, None if none does."""
    tolerations = () if rules is None else rules.tolerations
    for taint in taints:
        if taint.effect is not TaintEffect.PREFER_NO_SCHEDULE and not any(one.covers(taint) for one in tolerations):
            return taint
    return None


def meets(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Whether the labels meet all conditions."""
    return all(one.holds(labels) for one in selector)


def allows(rules: PlacementRules, labels: Labels, name: str | None = None) -> bool:
    """Whether the rules allow a node with these labels. `name` is needed if the rules are `by_name`."""
    if not rules.nodes:
        return True
    known = labels_of(labels, name)
    return any(meets(selector, known) for selector in rules.nodes)


def node_preference(rules: PlacementRules | None, labels: Labels, taints: tuple[Taint, ...], name: str | None) -> int:
    """The sum of the weights of the preferences that the node meets, less 1 for each taint to avoid."""
    liked = 0
    if rules is not None and rules.preferred_nodes:
        known = labels_of(labels, name)
        liked = sum(one.weight for one in rules.preferred_nodes if meets(one.selector, known))
    tolerations = () if rules is None else rules.tolerations
    for taint in taints:
        if taint.effect is TaintEffect.PREFER_NO_SCHEDULE and not any(one.covers(taint) for one in tolerations):
            liked -= 1
    return liked


def labels_of(labels: Labels, name: str | None = None) -> Mapping[str, str]:
    """The labels by key, with the name of the node under the keys that stand for it."""
    return dict(labels) if name is None else {HOSTNAME_LABEL: name, **dict(labels), NAME_FIELD: name}


def _integer(text: str | None) -> int | None:
    digits = (text or "").removeprefix("-")
    return int(text or "") if digits.isascii() and digits.isdigit() and len(digits) < 20 else None
