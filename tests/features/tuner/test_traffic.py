"""Traffic scenarios."""

from random import Random

import pytest

from corral.core.model.errors import Refused
from corral.features.tuner.measuring.traffic import RequestSize, read_scenario


def test_each_kind_draws_what_it_says() -> None:
    assert read_scenario("D(100,20)")(Random(1)) == RequestSize(100, 20)
    even = [read_scenario("U(50,100)/(200, 250)")(Random(seed)) for seed in range(50)]
    assert all(50 <= one.prompt_tokens <= 100 and 200 <= one.output_tokens <= 250 for one in even)
    normal = [read_scenario("N(480,240)/(3,1)")(Random(seed)) for seed in range(400)]
    assert 440 < sum(one.prompt_tokens for one in normal) / 400 < 520
    assert min(one.output_tokens for one in normal) >= 1


@pytest.mark.parametrize("text", ["D(100)", "E(64)", "dataset", "D(100,20)x", "U(1,2)", "N(a,b)/(c,d)", ""])
def test_other_scenarios_are_refused_saying_which_there_are(text: str) -> None:
    with pytest.raises(Refused, match=r"write D\(prompt,output\)"):
        read_scenario(text)
