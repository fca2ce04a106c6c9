"""Where a service's pods may run by their runtime's rules, and these rules with a chosen node added."""

from typing import Any

import pytest

from corral.core.model.placing.placement_rules import Taint, TaintEffect
from corral.engines.kubernetes.inventory.pod_rules import affinity_for, affinity_in, why_not_there

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HERE = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["host-1"]}


def requiring(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def test_a_node_is_preferred_by_the_greatest_weight_or_required() -> None:
    preferred = affinity_for("host-1", required=False, rules={})
    assert preferred == {"nodeAffinity": {PREFERRED: [{"weight": 100, "preference": {"matchExpressions": [HERE]}}]}}
    required = affinity_for("host-1", required=True, rules={})
    assert required == {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [HERE]}]}}}


def test_how_firmly_a_node_is_named_is_read_again() -> None:
    for required, how in ((True, "required"), (False, "preferred")):
        assert affinity_in({"affinity": affinity_for("host-1", required=required, rules={})}) == how
    assert affinity_in(requiring(expression("type", "In", "h100"))) is None
    assert affinity_in(requiring({"matchExpressions": 3})) is None


def test_what_the_runtime_asks_of_nodes_stays() -> None:
    rules = requiring(expression("type", "In", "h100"), expression("type", "In", "h200"))
    rules["affinity"]["podAntiAffinity"] = {"kept": True}
    rules["affinity"]["nodeAffinity"][PREFERRED] = [{"weight": 1, "preference": expression("zone", "In", "a")}]
    required = affinity_for("host-1", required=True, rules=rules)
    terms = required["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert [term["matchExpressions"] for term in terms] == [
        [{"key": "type", "operator": "In", "values": [kind]}, HERE] for kind in ("h100", "h200")
    ]
    assert required["podAntiAffinity"] == {"kept": True}
    preferred = affinity_for("host-1", required=False, rules=rules)["nodeAffinity"]
    assert [one["weight"] for one in preferred[PREFERRED]] == [100, 1]
    assert preferred[REQUIRED] == rules["affinity"]["nodeAffinity"][REQUIRED]


@pytest.mark.parametrize(
    ("term", "holds"),
    [
        (expression("type", "In", "h100", "a100"), True),
        (expression("type", "NotIn", "h100"), False),
        (expression("none", "NotIn", "h100"), True),
        (expression("type", "Exists"), True),
        (expression("type", "DoesNotExist"), False),
        (expression("gpus", "Gt", "7"), True),
        (expression("gpus", "Lt", "8"), False),
        (expression("type", "Gt", "7"), False),
        (expression("type", "Newer", "7"), False),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}, True),
        ({}, False),
    ],
)
def test_required_affinity_of_the_runtime_is_read_as_kubernetes_reads_it(term: dict[str, Any], holds: bool) -> None:
    found = why_not_there({"type": "h100", "gpus": "8"}, "node-1", [], requiring(term))
    assert (found is None) is holds


def test_a_node_without_a_label_of_the_selector_is_no_place() -> None:
    found = why_not_there({}, "n", [], {"nodeSelector": {"pool": "serving"}})
    assert found == "it has no label pool=serving, which the runtime asks for"


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": "team", "operator": "Equal", "value": "x", "effect": "NoSchedule"}, True),
        ({"key": "team", "value": "x"}, True),
        ({"key": "team", "value": "y"}, False),
        ({"key": "team", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "team", "operator": "Exists", "effect": "NoExecute"}, False),
        ({}, False),
    ],
)
def test_a_taint_keeps_off_what_does_not_tolerate_it(toleration: dict[str, Any], tolerated: bool) -> None:
    taint = Taint("team", "x")
    found = why_not_there({}, "n", [taint], {"tolerations": [toleration]})
    assert found == (None if tolerated else "it has the taint team=x:NoSchedule")


def test_the_taint_of_gpu_nodes_and_a_soft_one_keep_no_service_off() -> None:
    taints = [Taint("nvidia.com/gpu"), Taint("old", "", TaintEffect.PREFER_NO_SCHEDULE)]
    assert why_not_there({}, "n", taints, {}) is None
