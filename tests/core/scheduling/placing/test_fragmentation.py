"""Fragmentation in columns is fragmentation as its authors define it."""

from collections.abc import Sequence
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.jobs.job import Request
from corral.core.scheduling.placing.fragmentation import Fragmentation
from corral.core.scheduling.placing.ranking import Placer
from corral.core.scheduling.state.columns import Columns
from tests.core.scheduling.fleet import rows, shares

MIX = [
    (Request(share_milli=190, cpu_milli=500), 5),
    (Request(share_milli=470, cpu_milli=4000), 3),
    (Request(cpu_milli=8000), 4),
    (Request(devices=2, cpu_milli=16_000), 1),
    (Request(cpu_milli=1000, models=("A100",)), 2),
    (Request(devices=0, cpu_milli=2000), 3),
]

nodes = st.tuples(
    st.lists(st.sampled_from([0, 100, 190, 470, 530, 1000]), min_size=1, max_size=4),
    st.sampled_from([0, 700, 4000, 20_000]),
    st.sampled_from(["A100", "T4"]),
)


def plainly(free: Sequence[int], cpu: int, model: str) -> float:
    """F of one node in milli-GPU, class by class."""
    total = 0.0
    for request, count in MIX:
        excluded = request.models and model not in request.models
        able = [milli for milli in free if milli >= request.share_milli]
        if not request.devices or excluded or request.cpu_milli > cpu or len(able) < request.devices:
            useless = sum(free)
        else:
            useless = sum(milli for milli in free if milli < request.share_milli)
        total += count * useless
    return total / sum(count for _, count in MIX)


@given(st.lists(nodes, min_size=1, max_size=5))
def test_fragmentation_is_what_the_mix_could_not_use(found: list[tuple[list[int], int, str]]) -> None:
    columns = Columns(rows(*(shares(*free, cpu=cpu, model=model) for free, cpu, model in found)))
    expected = sum(plainly(free, cpu, model) for free, cpu, model in found)
    assert Fragmentation(columns, MIX).fragmentation_milli() == pytest.approx(expected)


@given(nodes, st.sampled_from([request for request, _ in MIX if request.devices < 2]))
def test_the_score_is_the_sigmoid_of_the_descent_cut_to_an_integer(
    node: tuple[list[int], int, str], request: Request
) -> None:
    free, cpu, model = node
    columns = Columns(rows(shares(*free, cpu=cpu, model=model)))
    found = Placer(columns, Fragmentation(columns, MIX))
    if not found.scores(request)[0] > float("-inf"):
        return
    taking = found.best(request)
    assert taking is not None
    after = list(free)
    for slot in taking.slots:
        after[slot] -= request.share_milli
    descent = plainly(free, cpu, model) - plainly(after, cpu - request.cpu_milli, model)
    assert abs(found.scores(request)[0] - 100 / (1 + exp(-descent / 1000))) <= 1


def test_a_placement_that_makes_nothing_useless_scores_exactly_half() -> None:
    columns = Columns(rows(shares(1000, 1000, 530, cpu=64_000), shares(470, cpu=64_000)))
    scores = Placer(columns, Fragmentation(columns, MIX)).scores(Request(devices=0, cpu_milli=100))
    assert scores.tolist() == [50.0, 50.0]
