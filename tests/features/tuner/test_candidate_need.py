"""What a candidate needs, for the traffic of its task."""

import pytest

from corral.features.tuner.engines.candidate_need import candidate_need, longest_request
from corral.features.tuner.engines.inference_engine import find_inference_engine
from corral.features.tuner.model.tuning_spec import BenchmarkSpec, ServedModel, TuningSpec


@pytest.mark.parametrize(
    ("scenarios", "tokens"),
    [
        (["D(100,200)"], 300),
        (["D(100,200)", "U(50,100)/(200,250)"], 350),
        (["N(480,240)/(300,150)"], 480 + 3 * 240 + 300 + 3 * 150),
        (["E(512)"], 512),
        (["D(100,200)", "dataset"], None),
        (["D(nan,1)"], None),
        (["D(inf,1)"], None),
        (["D(x"], None),
        ([], None),
    ],
)
def test_the_longest_request_of_the_scenarios(scenarios: list[str], tokens: int | None) -> None:
    assert longest_request(BenchmarkSpec(traffic_scenarios=tuple(scenarios))) == tokens


def test_a_candidate_needs_the_cache_of_the_highest_load() -> None:
    traffic = BenchmarkSpec(traffic_scenarios=("D(1000,1000)",), num_concurrency=(1, 64))
    spec = TuningSpec("t", ServedModel("org/llama-3-8b"), "vllm", benchmark=traffic)
    found = candidate_need(spec, find_inference_engine("vllm"), None, {"tp": 2, "dp": 2})
    assert found.gpus == 4
    assert found.estimate is not None
    assert (found.estimate.context, found.estimate.batch) == (2000, 32)
