"""Rules on where a job may run besides amounts: taints and tolerations, labels of nodes, and what runs there already.

They mean what Kubernetes means by them, with nodes as the one topology: two jobs are together when they share a node.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

Labels = tuple[tuple[str, str], ...]

HOSTNAME_LABEL = "kubernetes.io/hostname"
"""The label that tells nodes apart. A node that does not carry it has its name as value."""

NAME_FIELD = "metadata.name"
"""The key under which an expression means the name of the node itself."""

NAME_TAG = "job name"
"""The tag under which every job carries its name; no label of Kubernetes can be called so."""

NAMESPACE_TAG = "pod namespace"
"""The tag under which a job that is a pod carries its namespace."""


class TaintEffect(StrEnum):
    """What a taint does to jobs that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Taint(NamedTuple):
    """A mark of a node that keeps off the jobs which do not tolerate it."""

    key: str
    value: str = ""
    effect: TaintEffect = TaintEffect.NO_SCHEDULE

    def __str__(self) -> str:
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Toleration:
    """Taints that a job tolerates. `key` "" is every key, `value` None every value, `effect` None every effect."""

    key: str = ""
    value: str | None = None
    effect: TaintEffect | None = None

    def covers(self, taint: Taint) -> bool:
        """Whether a job with this toleration is not kept off by the taint."""
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
    """A condition on one label. `Gt` and `Lt` compare integers; a label that is missing is not in any list."""

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
    """Nodes that a job had better run on: `weight` from 1 to 100 is added up over all that hold."""

    weight: int
    selector: Selector


@dataclass(frozen=True, slots=True)
class PreferredNeighbours:
    """Jobs that a job had better share a node with, or with a negative `weight` had better not."""

    weight: int
    selector: Selector


@dataclass(frozen=True, slots=True)
class Spread:
    """No node may run `max_skew` more of the selected jobs than the one of its nodes that runs the fewest.

    With fewer than `min_nodes` nodes that could serve the job, the fewest count as 0. Without `required` it is a wish.
    """

    selector: Selector
    max_skew: int = 1
    min_nodes: int = 1
    required: bool = True


@dataclass(frozen=True, slots=True)
class PlacementRules:
    """What a job demands of its node besides amounts.

    Attributes:
        tolerations: taints that do not keep it off.
        nodes: selectors of which the node must meet one; () is any node.
        preferred_nodes: of nodes that fit, those with the most weight come first.
        tags: what the rules of other jobs know it by.
        near: some job on its node must meet all of these, unless nothing anywhere does and it would itself.
        apart: no job on its node may meet any of these, nor later one that comes there.
        preferred_neighbours: as `preferred_nodes`, by what runs there.
        spread: how evenly jobs are to be spread over nodes.
    """

    tolerations: tuple[Toleration, ...] = ()
    nodes: tuple[Selector, ...] = ()
    preferred_nodes: tuple[PreferredNodes, ...] = ()
    tags: Labels = ()
    near: tuple[Selector, ...] = ()
    apart: tuple[Selector, ...] = ()
    preferred_neighbours: tuple[PreferredNeighbours, ...] = ()
    spread: tuple[Spread, ...] = ()

    @property
    def by_name(self) -> bool:
        """Whether nodes are told apart by their names, so that nodes in equal states may differ."""
        selectors = (*self.nodes, *(one.selector for one in self.preferred_nodes))
        return any(one.key in (HOSTNAME_LABEL, NAME_FIELD) for selector in selectors for one in selector)

    @property
    def by_neighbours(self) -> bool:
        """Whether it depends on what runs on a node."""
        return bool(self.near or self.apart or self.preferred_neighbours or self.spread)

    def without_neighbours(self) -> "PlacementRules":
        """The same rules as if nothing ran anywhere."""
        return replace(self, near=(), apart=(), preferred_neighbours=(), spread=())


@dataclass(frozen=True, slots=True)
class Resident:
    """What rules know of something that runs on a node: its tags, and the selectors of what must not come to it.

    What is `foreign` is no job: nobody knows when it ends, and no eviction ends it.
    """

    tags: Labels = ()
    apart: tuple[Selector, ...] = ()
    foreign: bool = False


def untolerated(taints: tuple[Taint, ...], rules: PlacementRules | None) -> Taint | None:
    """The first taint that keeps a job with these rules off a node, None where none does."""
    tolerations = () if rules is None else rules.tolerations
    for taint in taints:
        if taint.effect is not TaintEffect.PREFER_NO_SCHEDULE and not any(one.covers(taint) for one in tolerations):
            return taint
    return None


def meets(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Whether the labels meet all conditions."""
    return all(one.holds(labels) for one in selector)


def allows(rules: PlacementRules, labels: Labels, name: str | None = None) -> bool:
    """Whether the rules allow a node with these labels; its `name` is needed where they are `by_name`."""
    if not rules.nodes:
        return True
    known = labels_of(labels, name)
    return any(meets(selector, known) for selector in rules.nodes)


def node_preference(rules: PlacementRules | None, labels: Labels, taints: tuple[Taint, ...], name: str | None) -> int:
    """The sum of the weights of what the rules prefer and the node has, less one for each taint to be avoided."""
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
    """Labels by key, with the name of the node under the keys that mean it."""
    return dict(labels) if name is None else {HOSTNAME_LABEL: name, **dict(labels), NAME_FIELD: name}


def _integer(text: str | None) -> int | None:
    digits = (text or "").removeprefix("-")
    return int(text or "") if digits.isascii() and digits.isdigit() and len(digits) < 20 else None
