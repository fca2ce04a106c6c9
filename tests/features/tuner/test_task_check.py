"""What is refused before it is written down."""

from dataclasses import replace
from typing import Any

import pytest

from corral.config.tuner import TunerSettings
from corral.core.model.errors import Refused
from corral.features.tuner.model.tuning_spec import (
    BenchmarkSpec,
    DeploymentMode,
    DockerOptions,
    ServedModel,
    TuningSpec,
)
from corral.features.tuner.tasks.task_check import check_task

SITE = TunerSettings()
TASK = TuningSpec("llama", ServedModel("llama-3-8b"), "vllm", {"tp-size": [1, 2]})


def test_a_task_that_can_run_is_taken() -> None:
    assert check_task(TASK, SITE) == ()


def test_a_preset_and_an_empty_list_are_not_a_second_size() -> None:
    assert check_task(replace(TASK, parallel_config={"preset": "high-throughput", "tp": []}), SITE) == ()


def test_of_a_space_that_is_too_large_its_user_is_told() -> None:
    huge = {f"p{number}": list(range(10)) for number in range(9)}
    (note,) = check_task(replace(TASK, parameters=huge), SITE)
    assert "1,000,000,000 combinations" in note


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"base_runtime": "sglnag"}, "did you mean 'sglang'"),
        ({"parameters": {}}, "no parameters to try"),
        ({"parameters": {"tp": 2}}, r"give a list of values"),
        ({"optimization": {"objectiv": "x"}}, "did you mean 'objective'"),
        ({"slo": {"ttft": {"threshold": -1}}}, "slo.ttft"),
        ({"benchmark": BenchmarkSpec(traffic_scenarios=("E(3)",))}, "cannot be generated here"),
        (
            {"deployment_mode": DeploymentMode.DOCKER, "docker": DockerOptions(shm_size="16")},
            "docker.shm_size: '16' is",
        ),
        ({"deployment_mode": DeploymentMode.OME, "storage": {"typ": "pvc"}}, "storage.typ is not known; did you mean"),
        ({"deployment_mode": DeploymentMode.OME, "storage": {"type": "nfs"}}, "storage: write"),
        (
            {"deployment_mode": DeploymentMode.KSERVE, "storage": {"type": "pvc", "pvc_name": "a", "mount_path": "/a"}},
            "KServe mounts a claim at /mnt/models",
        ),
        ({"deployment_mode": DeploymentMode.OME, "clusterbasemodel_config": {"name": "a"}}, "make it with kubectl"),
        ({"deployment_mode": DeploymentMode.DOCKER, "clusterbasemodel_config": {"name": "a"}}, "docker needs none"),
        ({"clusterservingruntime_config": {"name": "a"}}, "process needs none; leave this out"),
        ({"env": {"A=B": "x"}}, "env: 'A=B' is not a variable name"),
        ({"env": {"": "x"}}, "env: '' is not a variable name"),
        ({"queue": "a\nb"}, "queue: 'a\\\\nb' is not allowed"),
        ({"project": "x" * 201}, "project: .x+.* is not allowed"),
        ({"parameters": {"port": [22]}}, "parameters.port: Corral gives each server its own"),
        ({"parameters": {"served_model_name": ["a"]}}, "parameters.served_model_name: Corral gives"),
        (
            {"parameters": {"model_path": ["/a"]}, "base_runtime": "sglang", "deployment_mode": DeploymentMode.DOCKER},
            "parameters.model_path: Corral gives",
        ),
        ({"parallel_config": {"tp": 2}}, "parameters.tp-size and parallel_config.tp both give tp"),
        (
            {"parameters": {"tp-size": [1], "tensor_parallel_size": [2]}},
            "parameters.tp-size and parameters.tensor_parallel_size both give tp",
        ),
        (
            {"parameters": {"enable-expert-parallel": [True]}, "parallel_config": {"enable_expert_parallel": True}},
            "both give enable-expert-parallel, and only one would count; remove one",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused, match=why):
        check_task(replace(TASK, **wrong), SITE)
