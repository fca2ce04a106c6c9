"""Turns a pod's own placement fields into rules of the core. Raises Refused for fields that the core has no rule
for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from corral.core.model.errors import Refused
from corral.core.model.placing.placement_rules import (
    HOSTNAME_LABEL,
    NAME_FIELD,
    NAMESPACE_TAG,
    LabelExpression,
    Labels,
    Operator,
    PlacementRules,
    PreferredNeighbours,
    PreferredNodes,
    Selector,
    Spread,
    Toleration,
)
from corral.engines.kubernetes.cluster.objects import mapping, sequence
from corral.engines.kubernetes.cluster.placement_fields import (
    PREFERRED,
    REQUIRED,
    NotUnderstood,
    read_expression,
    read_node_term,
    read_toleration,
)

Json = Mapping[str, Any]

_NEVER: Selector = (LabelExpression(NAME_FIELD, Operator.IN, ()),)
"""A selector that nothing matches. Kubernetes gives this meaning to an empty term and to a missing selector."""


def node_rules(spec: Json) -> PlacementRules:
    """Return the rules of a pod about its node alone, whatever runs there. Raises Refused as `placement_rules`."""
    node = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    return PlacementRules(
        tolerations=tuple(_toleration(one) for one in sequence(spec.get("tolerations"))),
        nodes=_node_terms(node, mapping(spec.get("nodeSelector"))),
        preferred_nodes=tuple(
            PreferredNodes(_weight(one), _node_term(mapping(one.get("preference"))))
            for one in sequence(node.get(PREFERRED))
        ),
    )


def placement_rules(spec: Json, labels: Mapping[str, str], namespace: str) -> PlacementRules:
    """Return the rules of a pod with this specification. Raises Refused with the field that is not understood."""
    affinity = mapping(spec.get("affinity"))
    pod, anti = mapping(affinity.get("podAffinity")), mapping(affinity.get("podAntiAffinity"))
    return replace(
        node_rules(spec),
        tags=tags_of(labels, namespace),
        near=tuple(_pod_term(one, "podAffinity", labels, namespace) for one in sequence(pod.get(REQUIRED))),
        apart=tuple(_pod_term(one, "podAntiAffinity", labels, namespace) for one in sequence(anti.get(REQUIRED))),
        preferred_neighbours=(
            *_preferred_pods(pod, 1, "podAffinity", labels, namespace),
            *_preferred_pods(anti, -1, "podAntiAffinity", labels, namespace),
        ),
        spread=tuple(_spread(one, labels, namespace) for one in sequence(spec.get("topologySpreadConstraints"))),
    )


def tags_of(labels: Mapping[str, str], namespace: str) -> Labels:
    """Return the tags of a pod, which the rules of other pods refer to."""
    return ((NAMESPACE_TAG, namespace), *sorted(labels.items()))


def repelled_by(spec: Json, labels: Mapping[str, str], namespace: str) -> tuple[Selector, ...]:
    """Return selectors of the pods that a pod of others keeps off its node. Terms that are not understood are
    skipped.
    """
    anti = mapping(mapping(spec.get("affinity")).get("podAntiAffinity"))
    found = []
    for one in sequence(anti.get(REQUIRED)):
        try:
            found.append(_pod_term(one, "podAntiAffinity", labels, namespace))
        except Refused:
            continue
    return tuple(found)


def _toleration(written: Json) -> Toleration:
    try:
        return read_toleration(written)
    except NotUnderstood as error:
        raise _not_understood("tolerations", str(error)) from None


def _node_terms(node: Json, selector: Json) -> tuple[Selector, ...]:
    """Return the selectors of which a node must match at least one. Each includes all of the pod's nodeSelector."""
    pairs = tuple(LabelExpression(str(key), Operator.IN, (str(value),)) for key, value in sorted(selector.items()))
    required = node.get(REQUIRED)
    if required is None:
        return (pairs,) if pairs else ()
    terms = [one for one in sequence(mapping(required).get("nodeSelectorTerms")) if any(one.values())]
    return tuple((*pairs, *_node_term(one)) for one in terms) or (_NEVER,)


def _node_term(term: Json) -> Selector:
    try:
        return read_node_term(term)
    except NotUnderstood as error:
        raise _not_understood("nodeAffinity", str(error)) from None


def _expression(written: Json, field: str) -> LabelExpression:
    try:
        return read_expression(written)
    except NotUnderstood as error:
        raise _not_understood(field, str(error)) from None


def _preferred_pods(
    affinity: Json, sign: int, field: str, labels: Mapping[str, str], namespace: str
) -> Iterable[PreferredNeighbours]:
    for one in sequence(affinity.get(PREFERRED)):
        term = mapping(one.get("podAffinityTerm"))
        yield PreferredNeighbours(sign * _weight(one), _pod_term(term, field, labels, namespace))


def _pod_term(term: Json, field: str, labels: Mapping[str, str], namespace: str) -> Selector:
    _only_hostname(term, field)
    selector = _label_selector(term.get("labelSelector"), field)
    keys = (("matchLabelKeys", Operator.IN), ("mismatchLabelKeys", Operator.NOT_IN))
    merged = (one for name, operator in keys for one in _own_values(term.get(name), operator, labels))
    return (*_namespaces(term, field, namespace), *selector, *merged)


def _namespaces(term: Json, field: str, namespace: str) -> Selector:
    """Return the selector of a term's namespaces; () means all namespaces."""
    if (selector := term.get("namespaceSelector")) is not None:
        if mapping(selector):
            raise _not_understood(field, "a namespaceSelector with conditions; name the namespaces in `namespaces`")
        return ()
    named = term.get("namespaces")
    names = tuple(str(one) for one in named) if isinstance(named, list) and named else (namespace,)
    return (LabelExpression(NAMESPACE_TAG, Operator.IN, names),)


def _label_selector(selector: object, field: str) -> Selector:
    if selector is None:
        return _NEVER
    written = mapping(selector)
    pairs = sorted(mapping(written.get("matchLabels")).items())
    return (
        *(LabelExpression(str(key), Operator.IN, (str(value),)) for key, value in pairs),
        *(_expression(one, field) for one in sequence(written.get("matchExpressions"))),
    )


def _own_values(keys: object, operator: Operator, labels: Mapping[str, str]) -> Iterable[LabelExpression]:
    for key in keys if isinstance(keys, list) else ():
        if str(key) in labels:
            yield LabelExpression(str(key), operator, (labels[str(key)],))


def _spread(written: Json, labels: Mapping[str, str], namespace: str) -> Spread:
    field = "topologySpreadConstraints"
    _only_hostname(written, field)
    if written.get("nodeAffinityPolicy") not in (None, "Honor"):
        raise _not_understood(field, "nodeAffinityPolicy other than Honor")
    if written.get("nodeTaintsPolicy") not in (None, "Ignore"):
        raise _not_understood(field, "nodeTaintsPolicy other than Ignore")
    selector = (
        LabelExpression(NAMESPACE_TAG, Operator.IN, (namespace,)),
        *_label_selector(written.get("labelSelector"), field),
        *_own_values(written.get("matchLabelKeys"), Operator.IN, labels),
    )
    return Spread(
        selector,
        max(1, int(written.get("maxSkew") or 1)),
        max(1, int(written.get("minDomains") or 1)),
        required=written.get("whenUnsatisfiable") != "ScheduleAnyway",
    )


def _only_hostname(term: Json, field: str) -> None:
    key = term.get("topologyKey")
    if key != HOSTNAME_LABEL:
        raise _not_understood(field, f"the topologyKey {key!r:.80}: only {HOSTNAME_LABEL} is understood")


def _weight(written: Json) -> int:
    weight = written.get("weight")
    return weight if isinstance(weight, int) else 1


def _not_understood(field: str, what: str) -> Refused:
    return Refused(f"{field}: Corral does not understand {what}; remove it, or use another scheduler", field=field)
