"""The nodes that a runtime's rules allow for a service's pods, and the same rules with a chosen node added. Pure.

A service's pod template is laid over its runtime's template and replaces lists as a whole. So the runtime's terms are
repeated beside the added term.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from corral.core.model.placing.placement_rules import HOSTNAME_LABEL, NAME_FIELD, Taint, TaintEffect, meets
from corral.engines.kubernetes.cluster.gpu_resources import gpu_resources
from corral.engines.kubernetes.cluster.objects import mapping, sequence
from corral.engines.kubernetes.cluster.placement_fields import (
    PREFERRED,
    REQUIRED,
    NotUnderstood,
    read_node_term,
    read_toleration,
)

PREFERRED_WEIGHT = 100
"""The highest weight of Kubernetes: the choice counts for more than the scheduler's other preferences."""

Affinity = Literal["preferred", "required"]
AFFINITIES: tuple[Affinity, ...] = ("preferred", "required")
"""Whether Kubernetes should put pods on a node, or must."""

Rules = Mapping[str, Any]
"""The part of a pod's specification that says where it may run: nodeSelector, affinity, tolerations."""


def affinity_for(hostname: str, *, required: bool, rules: Rules) -> dict[str, Any]:
    """Return the affinity for the node with this hostname label, with the terms of the runtime's own `rules`.

    A required term is added to each of the runtime's terms, of which one must hold.
    """
    own = mapping(rules.get("affinity"))
    node = mapping(own.get("nodeAffinity"))
    expression = {"key": HOSTNAME_LABEL, "operator": "In", "values": [hostname]}
    if not required:
        preferred = {"weight": PREFERRED_WEIGHT, "preference": {"matchExpressions": [expression]}}
        return {**own, "nodeAffinity": {**node, PREFERRED: [preferred, *sequence(node.get(PREFERRED))]}}
    terms = sequence(mapping(node.get(REQUIRED)).get("nodeSelectorTerms")) or [{}]
    both = [{**term, "matchExpressions": [*sequence(term.get("matchExpressions")), expression]} for term in terms]
    return {**own, "nodeAffinity": {**node, REQUIRED: {"nodeSelectorTerms": both}}}


def affinity_in(rules: Rules) -> Affinity | None:
    """Return whether pods with these rules require or prefer a named node; None if no node is named."""
    node = mapping(mapping(rules.get("affinity")).get("nodeAffinity"))
    if any(_names_a_node(one) for one in sequence(mapping(node.get(REQUIRED)).get("nodeSelectorTerms"))):
        return "required"
    preferences = [mapping(one.get("preference")) for one in sequence(node.get(PREFERRED))]
    return "preferred" if any(map(_names_a_node, preferences)) else None


def why_not_there(labels: Mapping[str, str], name: str, taints: Sequence[Taint], rules: Rules) -> str | None:
    """Return why pods with these rules cannot start on the node, or None.

    A taint named like the GPU resource only keeps pods without GPUs off: clusters add its toleration to GPU pods.
    """
    for taint in taints:
        if taint.effect is not TaintEffect.PREFER_NO_SCHEDULE and not _tolerated(taint, rules):
            return f"it has the taint {taint}"
    selector = mapping(rules.get("nodeSelector"))
    for key, value in selector.items():
        if labels.get(key) != value:
            return f"it has no label {key}={value}, which the runtime asks for"
    required = mapping(mapping(mapping(rules.get("affinity")).get("nodeAffinity")).get(REQUIRED))
    terms = sequence(required.get("nodeSelectorTerms"))
    if required and not any(_matches(term, labels, name) for term in terms):
        return "its labels are not what the runtime's node affinity requires"
    return None


def _names_a_node(term: Mapping[str, Any]) -> bool:
    return any(one.get("key") == HOSTNAME_LABEL for one in sequence(term.get("matchExpressions")))


def _tolerated(taint: Taint, rules: Rules) -> bool:
    return taint.key in gpu_resources() or any(_covers(one, taint) for one in sequence(rules.get("tolerations")))


def _covers(toleration: Mapping[str, Any], taint: Taint) -> bool:
    try:
        return read_toleration(toleration).covers(taint)
    except NotUnderstood:
        return False


def _matches(term: Mapping[str, Any], labels: Mapping[str, str], name: str) -> bool:
    """Return whether all expressions of a term hold. An empty term matches nothing, as in Kubernetes."""
    try:
        selector = read_node_term(term)
    except NotUnderstood:
        return False
    return bool(selector) and meets(selector, {**labels, NAME_FIELD: name})
