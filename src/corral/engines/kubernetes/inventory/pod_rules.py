"""A chosen node, and preferred ones, in the rules of a service's pods. Pure.

A service's pod template is laid over its runtime's template and replaces lists as a whole. So the runtime's terms are
repeated beside the added term.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from corral.core.model.placing.placement_rules import HOSTNAME_LABEL, NAME_FIELD
from corral.engines.kubernetes.cluster.objects import mapping, sequence
from corral.engines.kubernetes.cluster.placement_fields import PREFERRED, REQUIRED

PREFERRED_WEIGHT = 100
"""The highest weight of Kubernetes: the choice counts for more than the scheduler's other preferences."""

Affinity = Literal["preferred", "required"]
"""Whether Kubernetes should put pods on a node, or must."""

Rules = Mapping[str, Any]
"""The part of a pod's specification that says where it may run: nodeSelector, affinity, tolerations."""


def affinity_for(*hostnames: str, required: bool, rules: Rules) -> dict[str, Any]:
    """Return the affinity for nodes with these hostname labels, with the terms of the runtime's own `rules`.

    A required term is added to each of the runtime's terms, of which one must hold.
    """
    own = mapping(rules.get("affinity"))
    node = mapping(own.get("nodeAffinity"))
    expression = {"key": HOSTNAME_LABEL, "operator": "In", "values": list(hostnames)}
    if not required:
        preferred = {"weight": PREFERRED_WEIGHT, "preference": {"matchExpressions": [expression]}}
        return {**own, "nodeAffinity": {**node, PREFERRED: [preferred, *sequence(node.get(PREFERRED))]}}
    terms = sequence(mapping(node.get(REQUIRED)).get("nodeSelectorTerms")) or [{}]
    both = [{**term, "matchExpressions": [*sequence(term.get("matchExpressions")), expression]} for term in terms]
    return {**own, "nodeAffinity": {**node, REQUIRED: {"nodeSelectorTerms": both}}}


def preferred_terms(names: Sequence[str], labels: Mapping[str, str]) -> tuple[dict[str, Any], ...]:
    """Return the terms of nodes with one of these names, and of nodes with each of these labels."""
    named = {"matchFields": [{"key": NAME_FIELD, "operator": "In", "values": list(names)}]}
    labelled = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]} for key, value in labels.items()
    ]
    return (*([named] if names else []), *labelled)


def with_preferences(rules: Rules, terms: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the `rules` with nodes of these terms preferred, too. Each counts for half as much as a chosen node."""
    if not terms:
        return dict(rules)
    affinity = mapping(rules.get("affinity"))
    node = mapping(affinity.get("nodeAffinity"))
    added = [{"weight": PREFERRED_WEIGHT // 2, "preference": dict(term)} for term in terms]
    preferred = {PREFERRED: [*sequence(node.get(PREFERRED)), *added]}
    return {**rules, "affinity": {**affinity, "nodeAffinity": {**node, **preferred}}}


def affinity_in(rules: Rules) -> Affinity | None:
    """Return whether pods with these rules require or prefer a named node; None if no node is named."""
    node = mapping(mapping(rules.get("affinity")).get("nodeAffinity"))
    if any(_names_a_node(one) for one in sequence(mapping(node.get(REQUIRED)).get("nodeSelectorTerms"))):
        return "required"
    preferences = [mapping(one.get("preference")) for one in sequence(node.get(PREFERRED))]
    return "preferred" if any(map(_names_a_node, preferences)) else None


def _names_a_node(term: Mapping[str, Any]) -> bool:
    return any(one.get("key") == HOSTNAME_LABEL for one in sequence(term.get("matchExpressions")))
