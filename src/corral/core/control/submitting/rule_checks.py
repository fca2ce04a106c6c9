"""Checks of a submission's rules on nodes and on other jobs: their number, and the length of their words."""

from collections.abc import Iterable, Sequence

from corral.core.model.errors import Refused
from corral.core.model.placing.placement_rules import (
    Operator,
    PlacementRules,
    PreferredNeighbours,
    PreferredNodes,
    Selector,
)
from corral.declared.field_limits import between

MAX_RULES = 100
"""The most rules of each kind, expressions of each selector, and values of each expression."""

MAX_WORD_LENGTH = 320
"""The most characters of a word. A label of Kubernetes has at most 253 characters, a slash and 63 more."""

MAX_WEIGHT = 100


def check_rules(rules: PlacementRules | None) -> None:
    """Raise Refused for rules that are too many or too long, or that compare with nothing."""
    if rules is None:
        return
    preferred: list[PreferredNodes | PreferredNeighbours] = [*rules.preferred_nodes, *rules.preferred_neighbours]
    selectors = [*rules.nodes, *rules.near, *rules.apart]
    selectors += [*(one.selector for one in preferred), *(one.selector for one in rules.spread)]
    kinds: Iterable[Sequence[object]] = (rules.tolerations, rules.tags, preferred, selectors, rules.spread)
    for kind in kinds:
        between(len(kind), 0, MAX_RULES, "rules", "how many of one kind there are")
    for selector in selectors:
        _check_selector(selector)
    for one in preferred:
        between(one.weight, -MAX_WEIGHT, MAX_WEIGHT, "rules", "a weight")
    for spread in rules.spread:
        between(min(spread.max_skew, spread.min_nodes), 1, 2**31, "rules", "max_skew and min_nodes")
    _check_words(word for pair in rules.tags for word in pair)
    _check_words(word for one in rules.tolerations for word in (one.key, one.value or ""))


def _check_selector(selector: Selector) -> None:
    between(len(selector), 0, MAX_RULES, "rules", "how many expressions a selector has")
    for one in selector:
        between(len(one.values), 0, MAX_RULES, "rules", "how many values an expression has")
        _check_words((one.key, *one.values))
        if one.operator in (Operator.GREATER, Operator.LESS) and len(one.values) != 1:
            raise Refused(f"rules: {one.key!r:.60} {one.operator} compares with one number; give one", field="rules")


def _check_words(words: Iterable[str]) -> None:
    for word in words:
        if len(word) > MAX_WORD_LENGTH or not word.isprintable():
            raise Refused(
                f"rules: {word!r:.60} is not allowed; use at most {MAX_WORD_LENGTH} printable characters", field="rules"
            )
