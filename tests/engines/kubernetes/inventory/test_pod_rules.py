"""A chosen node and preferred ones in the rules of a service's pods."""

from typing import Any

from corral.engines.kubernetes.inventory.pod_rules import (
    affinity_for,
    affinity_in,
    preferred_terms,
    with_preferences,
)

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


def test_preferred_nodes_are_added_to_what_the_runtime_prefers() -> None:
    rules = {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": expression("zone", "In", "a")}]}}}
    terms = preferred_terms(["node-1"], {"disk": "fast"})
    found = with_preferences(rules, terms)["affinity"]["nodeAffinity"][PREFERRED]
    assert [one["weight"] for one in found] == [1, 50, 50]
    assert found[1]["preference"] == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
    assert found[2]["preference"] == expression("disk", "In", "fast")
    assert with_preferences({"nodeSelector": {}}, ()) == {"nodeSelector": {}}
