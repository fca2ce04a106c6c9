"""A task may search for a power limit: it is the job's, and the energy of a token may be the objective."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from corral.client import Client
from corral.config.tuner import TunerSettings
from corral.core.model.errors import Refused
from corral.features.tuner.engines.inference_engine import find_inference_engine
from corral.features.tuner.engines.power_limit import power_limit_w_of
from corral.features.tuner.model.tuning_spec import DeploymentMode, ServedModel, TuningSpec
from corral.features.tuner.search.objective import Objective
from corral.features.tuner.search.scoring import Scoring
from corral.features.tuner.search.trial import LevelReading, LoadLevel
from corral.features.tuner.tasks.task_check import check_task
from tests.e2e.box import Box, described, serving
from tests.features.tuner.tasks import TASK, begun, over

SPEC = TuningSpec("llama", ServedModel("llama-3-8b"), "vllm", {"power-limit": [False, 300, 250]})


@pytest.mark.parametrize("name", ["power-limit", "power_limit"])
def test_the_limit_is_no_flag_of_the_inference_server(name: str) -> None:
    engine = find_inference_engine("vllm")
    command = engine.command("m", {name: 300, "max-num-seqs": 4}, host="h", port="1")
    assert "--max-num-seqs" in command
    assert not [word for word in command if "power" in word or word == "300"]


def test_no_limit_is_the_default() -> None:
    engine = find_inference_engine("vllm")
    assert engine.is_default({"power-limit": False})
    assert not engine.is_default({"power-limit": 300})


@pytest.mark.parametrize(
    ("parameters", "limit_w"),
    [({"power-limit": 300}, 300), ({"power_limit": 250}, 250), ({"power-limit": False}, None), ({"tp": 1}, None)],
)
def test_a_combination_has_the_limit_that_it_gives(parameters: dict[str, Any], limit_w: int | None) -> None:
    assert power_limit_w_of(parameters) == limit_w


@pytest.mark.parametrize("value", [True, 0, -5, 10_001, 250.5, "300"])
def test_what_is_no_limit_is_refused_before_the_task_is_stored(value: Any) -> None:
    with pytest.raises(Refused, match=r"power-limit: .* is no power limit; write whole watts"):
        check_task(replace(SPEC, parameters={"power-limit": [value]}), TunerSettings())


def test_pods_are_not_limited() -> None:
    task = replace(SPEC, deployment_mode=DeploymentMode.KSERVE)
    with pytest.raises(Refused, match="Corral limits no GPUs of pods"):
        check_task(task, TunerSettings())
    assert check_task(SPEC, TunerSettings()) == ()


def test_the_least_energy_of_a_token_wins_and_without_readings_there_is_no_score() -> None:
    level, scoring = LoadLevel("D(1,1)", 1, 1.0), Scoring((Objective.ENERGY,))
    assert scoring.of_readings([LevelReading(level, {"energy_per_output_token_j": 2.5})]) == (2.5,)
    assert scoring.of_readings([LevelReading(level, {"mean_ttft": 1.0})]) is None
    assert scoring.why_no_score([LevelReading(level, {"mean_ttft": 1.0})]) == (
        "no score: energy_per_output_token_j was not measured at each level"
    )


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    limits = "power_limit_w = 400\nmin_power_limit_w = 100\nmax_power_limit_w = 400"
    with serving(described(1, extra=limits)) as box:
        yield box


def test_the_limit_with_the_least_energy_is_found_and_served_with(box: Box) -> None:
    """A mock GPU that a job uses draws about 300 W, unless its limit is lower."""
    level = {**TASK["benchmark"], "max_time_per_iteration": 0.1, "max_requests_per_iteration": 1_000_000}
    with Client(box.home) as client:
        task_id = begun(
            client,
            parameters={"power-limit": [False, 120]},
            optimization={**TASK["optimization"], "objective": "minimize_energy"},
            benchmark=level,
        )
        assert over(box, client, task_id).status == "completed"
        rows = client.experiments.list(task_id, metrics=True)
        requests = {row.job_id: client.jobs.get(str(row.job_id)).spec["request"] for row in rows}
        for row in rows:
            given = row.parameters["power-limit"]
            assert requests[row.job_id].get("power_limit_w") == (given or None)
            assert row.metrics is not None
            assert row.metrics["energy_per_output_token_j"] > 0
    told = box.ok("tasks", "show", task_id)
    assert "power-limit 120" in told
    assert "--power-limit 120" in told
    assert "less energy per output token than the default" in told
