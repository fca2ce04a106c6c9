"""Rules on nodes mean what Kubernetes means by them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.devices.device import NodeStatus
from corral.core.model.jobs.job import Request
from corral.core.model.placing.fit import Cause, Fit, Misfit, fit, name_misfit, preference
from corral.core.model.placing.placement_rules import (
    LabelExpression,
    Operator,
    PlacementRules,
    PreferredNodes,
    Taint,
    TaintEffect,
    Toleration,
    allows,
    untolerated,
)
from corral.core.model.placing.state import NodeState

INFRA = Taint("dedicated", "infra")
CPU_ONLY = Request(devices=0)
EMPTY = NodeState((), 8000, 1024)


@pytest.mark.parametrize(
    ("toleration", "covered"),
    [
        (Toleration("dedicated", "infra"), True),
        (Toleration("dedicated", "other"), False),
        (Toleration("dedicated"), True),
        (Toleration("other"), False),
        (Toleration(), True),
        (Toleration("dedicated", effect=TaintEffect.NO_SCHEDULE), True),
        (Toleration("dedicated", effect=TaintEffect.NO_EXECUTE), False),
        (Toleration("dedicated", ""), False),
    ],
)
def test_a_toleration_covers_a_taint_by_key_value_and_effect_what_it_leaves_out_being_any(
    toleration: Toleration, covered: bool
) -> None:
    assert toleration.covers(INFRA) is covered


def test_a_taint_keeps_off_what_has_no_rules_at_all_and_one_that_only_prefers_keeps_nothing_off() -> None:
    soft = Taint("old", effect=TaintEffect.PREFER_NO_SCHEDULE)
    assert untolerated((soft, INFRA), None) == INFRA
    assert untolerated((soft,), None) is None
    answer = fit(CPU_ONLY, EMPTY._replace(taints=(INFRA,)))
    assert isinstance(answer, Misfit)
    assert answer.cause is Cause.TAINT
    assert not answer.never
    tolerant = replace(CPU_ONLY, rules=PlacementRules((Toleration("dedicated"),)))
    assert isinstance(fit(tolerant, EMPTY._replace(taints=(INFRA,))), Fit)
    assert preference(CPU_ONLY, EMPTY._replace(taints=(soft,))) < preference(CPU_ONLY, EMPTY)


def test_a_node_takes_so_many_members_and_no_more() -> None:
    answers = [fit(CPU_ONLY, EMPTY._replace(members_left=left)) for left in (None, 1, 0, -3)]
    assert [isinstance(answer, Fit) for answer in answers] == [True, True, False, False]
    assert isinstance(answers[2], Misfit)
    assert answers[2].cause is Cause.MEMBERS
    assert answers[2].eviction_helps


def test_a_node_that_takes_nothing_is_called_so_before_its_taints_are() -> None:
    answer = fit(CPU_ONLY, EMPTY._replace(taints=(INFRA,), status=NodeStatus.CORDONED))
    assert isinstance(answer, Misfit)
    assert answer.cause is Cause.NODE_CORDONED


@pytest.mark.parametrize(
    ("expression", "held"),
    [
        (LabelExpression("zone", Operator.IN, ("a", "b")), True),
        (LabelExpression("zone", Operator.IN, ("b",)), False),
        (LabelExpression("zone", Operator.NOT_IN, ("b",)), True),
        (LabelExpression("rack", Operator.NOT_IN, ("7",)), True),
        (LabelExpression("rack", Operator.IN, ("7",)), False),
        (LabelExpression("zone", Operator.EXISTS), True),
        (LabelExpression("rack", Operator.DOES_NOT_EXIST), True),
        (LabelExpression("gpus", Operator.GREATER, ("7",)), True),
        (LabelExpression("gpus", Operator.GREATER, ("8",)), False),
        (LabelExpression("gpus", Operator.LESS, ("9",)), True),
        (LabelExpression("zone", Operator.GREATER, ("7",)), False),
        (LabelExpression("rack", Operator.LESS, ("7",)), False),
        (LabelExpression("gpus", Operator.LESS, ("9" * 400,)), False),
        (LabelExpression("gpus", Operator.LESS), False),
    ],
)
def test_an_expression_compares_one_label(expression: LabelExpression, held: bool) -> None:
    assert expression.holds({"zone": "a", "gpus": "8"}) is held


expressions = st.builds(
    LabelExpression,
    st.sampled_from(["zone", "gpus"]),
    st.sampled_from(list(Operator)),
    st.lists(st.sampled_from(["a", "b", "1", "5"]), min_size=1, max_size=2).map(tuple),
)
label_sets = st.dictionaries(st.sampled_from(["zone", "gpus"]), st.sampled_from(["a", "b", "1", "5"]))


def plainly(expression: LabelExpression, labels: dict[str, str]) -> bool:
    has, value = expression.key in labels, labels.get(expression.key, "")
    numbers = has and value.isdigit() and expression.values[0].isdigit()
    return {
        "In": has and value in expression.values,
        "NotIn": not (has and value in expression.values),
        "Exists": has,
        "DoesNotExist": not has,
        "Gt": numbers and int(value) > int(expression.values[0]),
        "Lt": numbers and int(value) < int(expression.values[0]),
    }[expression.operator.value]


@given(st.lists(st.lists(expressions, max_size=3).map(tuple), max_size=3).map(tuple), label_sets)
def test_one_of_the_selectors_must_hold_with_all_its_expressions(
    selectors: tuple[tuple[LabelExpression, ...], ...], labels: dict[str, str]
) -> None:
    wanted = not selectors or any(all(plainly(one, labels) for one in selector) for selector in selectors)
    rules = PlacementRules(nodes=selectors)
    state = EMPTY._replace(labels=tuple(sorted(labels.items())))
    assert allows(rules, state.labels) is wanted
    answer = fit(replace(CPU_ONLY, rules=rules), state)
    assert isinstance(answer, Fit) is wanted
    assert isinstance(answer, Fit) or (answer.cause is Cause.NODE_AFFINITY and answer.never)


@pytest.mark.parametrize("key", ["kubernetes.io/hostname", "metadata.name"])
def test_a_node_may_be_asked_for_by_its_name_and_its_hostname_label_goes_before_its_name(key: str) -> None:
    rules = PlacementRules(nodes=((LabelExpression(key, Operator.IN, ("n1",)),),))
    request = replace(CPU_ONLY, rules=rules)
    assert rules.by_name
    assert name_misfit(request, "n1", ()) is None
    misfit = name_misfit(request, "n2", ())
    assert misfit is not None
    assert misfit.cause is Cause.NODE_AFFINITY
    labelled = name_misfit(request, "n2", (("kubernetes.io/hostname", "n1"),))
    assert (labelled is None) is (key == "kubernetes.io/hostname")


def test_what_is_preferred_adds_up() -> None:
    in_a = PreferredNodes(10, (LabelExpression("zone", Operator.IN, ("a",)),))
    big = PreferredNodes(5, (LabelExpression("gpus", Operator.GREATER, ("4",)),))
    request = replace(CPU_ONLY, prefers=(("zone", "a"),), rules=PlacementRules(preferred_nodes=(in_a, big)))
    state = EMPTY._replace(labels=(("gpus", "8"), ("zone", "a")))
    assert preference(request, state) == 1 + 10 + 5
    assert preference(request, state._replace(labels=(("zone", "a"),))) == 1 + 10
