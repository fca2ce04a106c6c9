"""Rules that a submission brings are of bounded number and length, whoever wrote them."""

import pytest

from corral.core.control.submitting.rule_checks import MAX_RULES, check_rules
from corral.core.model.errors import Refused
from corral.core.model.placing.placement_rules import (
    LabelExpression,
    Operator,
    PlacementRules,
    PreferredNodes,
    Spread,
    Toleration,
)

ONE = (LabelExpression("zone"),)


def test_rules_as_people_write_them_pass() -> None:
    check_rules(None)
    check_rules(PlacementRules((Toleration(),), (ONE,), (PreferredNodes(1, ONE),), (("app", ""),), (ONE,), (ONE,)))


@pytest.mark.parametrize(
    "rules",
    [
        PlacementRules(nodes=(ONE,) * (MAX_RULES + 1)),
        PlacementRules(nodes=((LabelExpression("zone"),) * (MAX_RULES + 1),)),
        PlacementRules(nodes=((LabelExpression("zone", Operator.IN, ("a",) * (MAX_RULES + 1)),),)),
        PlacementRules(nodes=((LabelExpression("zone", Operator.GREATER),),)),
        PlacementRules(near=((LabelExpression("x" * 1000),),)),
        PlacementRules(tags=(("app", "a\nb"),)),
        PlacementRules((Toleration("\0"),)),
        PlacementRules(preferred_nodes=(PreferredNodes(101, ONE),)),
        PlacementRules(spread=(Spread(ONE, 0),)),
    ],
)
def test_rules_that_are_too_many_too_long_or_senseless_are_refused(rules: PlacementRules) -> None:
    with pytest.raises(Refused, match="rules"):
        check_rules(rules)
