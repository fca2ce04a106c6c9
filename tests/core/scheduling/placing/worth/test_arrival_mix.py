import pytest

from corral.core.model.jobs.job import Request
from corral.core.scheduling.placing.worth.arrival_mix import ArrivalMix


def test_older_arrivals_count_less() -> None:
    mix = ArrivalMix(half_life=10)
    for _ in range(50):
        mix.observe(Request(share_milli=100))
    for _ in range(10):
        mix.observe(Request(share_milli=200))
    weights = {request.share_milli: weight for request, weight in mix.classes()}
    assert weights[200] == pytest.approx(weights[100], rel=0.05)


def test_cpu_jobs_and_what_prices_do_not_depend_on_are_left_out_of_the_mix() -> None:
    mix = ArrivalMix(half_life=1000)
    for request in (Request(devices=0, cpu_milli=1), Request(labels=(("a", "b"),)), Request(gang_size=3)):
        mix.observe(request)
    assert [(request, round(weight)) for request, weight in mix.classes()] == [(Request(), 4)]
