"""Fields of a pod that say where it may run, as their users may write them."""

from typing import Any

import pytest

from corral.core.model.placing.placement_rules import LabelExpression, Operator, TaintEffect, Toleration
from corral.engines.kubernetes.cluster.placement_fields import (
    NotUnderstood,
    read_expression,
    read_node_term,
    read_toleration,
)


def test_a_toleration_means_what_kubernetes_means_by_it() -> None:
    assert read_toleration({"operator": "Exists"}) == Toleration()
    assert read_toleration({"key": "a"}) == Toleration("a", "")
    written = {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5}
    assert read_toleration(written) == Toleration("a", "b", TaintEffect.NO_EXECUTE)


@pytest.mark.parametrize(
    ("written", "what"),
    [
        ({}, "without a key"),
        ({"value": "x"}, "without a key"),
        ({"key": "a", "operator": "Gt", "value": "5"}, "the operator 'Gt'"),
        ({"key": "a", "operator": ["Exists"]}, "the operator"),
        ({"key": "a", "effect": "Never"}, "the effect 'Never'"),
        ({"key": "a", "effect": {}, "value": 5}, "no text"),
        ({"key": "a", "effect": ["NoSchedule"]}, "the effect"),
        ({"key": 5}, "no text"),
    ],
)
def test_a_toleration_that_kubernetes_does_not_know_is_not_understood(written: dict[str, Any], what: str) -> None:
    with pytest.raises(NotUnderstood, match=what):
        read_toleration(written)


def test_a_node_term_is_all_of_its_expressions_on_labels_and_on_the_nodes_name() -> None:
    term = {
        "matchExpressions": [{"key": "gpus", "operator": "Gt", "values": ["7"]}, "nonsense"],
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
    }
    assert read_node_term(term) == (
        LabelExpression("gpus", Operator.GREATER, ("7",)),
        LabelExpression("metadata.name", Operator.IN, ("n1",)),
    )
    assert read_node_term({}) == ()


def test_an_expression_or_a_field_that_kubernetes_does_not_know_is_not_understood() -> None:
    for operator in ("Newer", None, ["In"]):
        with pytest.raises(NotUnderstood, match="the operator"):
            read_expression({"key": "a", "operator": operator})
    with pytest.raises(NotUnderstood, match=r"the field 'spec\.a'"):
        read_node_term({"matchFields": [{"key": "spec.a", "operator": "Exists"}]})
