"""Expectations come from arrivals, prices from expectations, and each step is bounded."""

from dataclasses import replace

import numpy as np

from corral.core.model.jobs.job import Request
from corral.core.scheduling.placing.ranking import Placer
from corral.core.scheduling.placing.worth.duals import ITERATIONS
from corral.core.scheduling.placing.worth.learner import FIRST_SOLVE, Learner
from corral.core.scheduling.placing.worth.values import LEVELS, WorthScore
from corral.core.scheduling.state.columns import Columns
from tests.core.scheduling.fleet import free, rows, shares


def columns(nodes: int = 6) -> Columns:
    return Columns(rows(*(free(8) for _ in range(nodes))))


def taught(*requests: Request, of: Columns) -> Learner:
    """A learner that has seen these requests over and over."""
    learner = Learner(of)
    for _ in range(200):
        for request in requests:
            learner.observe(request)
    return learner


def test_a_remainder_that_the_expected_jobs_fill_is_worth_more_than_one_a_step_smaller() -> None:
    prices = taught(Request(share_milli=300), of=columns()).settle()
    worth = prices.worth[0, :LEVELS]
    assert worth[30] - worth[29] > worth[29] - worth[26]


def test_worth_never_falls_as_more_is_left() -> None:
    prices = taught(Request(share_milli=190), Request(share_milli=470), Request(), of=columns()).settle()
    assert (np.diff(prices.worth.reshape(len(prices.core), -1, LEVELS), axis=2) >= -1e-9).all()


def test_cores_cost_more_at_a_higher_price() -> None:
    prices = taught(Request(cpu_milli=16_000), of=columns()).settle()
    whole = prices.worth[:, LEVELS - 1]
    cheap, dear = int(prices.core.argmin()), int(prices.core.argmax())
    assert whole[dear] < whole[cheap]


def test_before_anything_came_cores_are_kept_for_devices() -> None:
    of = Columns(rows(free(8, cpu=96_000), free(2, cpu=104_000)))
    placer = Placer(of, WorthScore(of, Learner(of).settle()))
    found = placer.best(Request(devices=0, cpu_milli=40_000))
    assert found is not None
    assert found.row == 1


def test_prices_tried_do_not_depend_on_how_full_the_cluster_is() -> None:
    nodes = rows(free(8), shares(0, 0, 0, 1000, cpu=500))
    hosts = [(128_000, 786_432), (64_000, 786_432)]
    full = Columns([replace(node, host=host) for node, host in zip(nodes, hosts, strict=True)])
    empty = Columns(rows(free(8), free(4, cpu=64_000)))
    assert (Learner(full).settle().core[:3] == Learner(empty).settle().core[:3]).all()


def test_a_solve_takes_its_steps_one_at_a_time_and_ends_with_prices() -> None:
    learner = taught(Request(share_milli=300), of=columns())
    answers = [learner.advance() for _ in range(ITERATIONS + 1)]
    assert all(answer is None for answer in answers[:-1])
    assert answers[-1] is not None
    assert not learner.due
    assert learner.advance() is None


def test_a_solve_is_due_after_the_first_arrivals_and_then_ever_more_rarely() -> None:
    learner = Learner(columns())
    learner.settle()
    dues = []
    for arrived in range(1, 400):
        learner.observe(Request())
        if learner.due:
            dues.append(arrived)
            learner.settle()
    gaps = np.diff(dues)
    assert dues[0] == FIRST_SOLVE
    assert (gaps[1:] >= gaps[:-1]).all()
    assert len(dues) < 8


def test_the_same_arrivals_give_the_same_prices() -> None:
    first, second = (taught(Request(share_milli=300), Request(), of=columns()).settle() for _ in range(2))
    assert (first.worth == second.worth).all()


def test_scarce_jobs_are_not_counted_on_twice() -> None:
    """Shares of 0.3 fit into what 0.7 leaves; where hardly any come, that remainder is worth less."""
    common = taught(Request(share_milli=700), Request(share_milli=300), of=columns()).settle()
    rare = taught(*[Request(share_milli=700)] * 9, Request(share_milli=300), of=columns()).settle()
    assert rare.worth[0, 30] < common.worth[0, 30]


def test_a_cluster_without_devices_or_nodes_can_still_be_asked() -> None:
    for of in (Columns([]), Columns(rows(free(0)))):
        assert Learner(of).settle().worth.shape[1] == 0
