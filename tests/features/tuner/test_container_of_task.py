"""The container that a task's server gets, from what its file says."""

from dataclasses import replace

import pytest

from corral.features.tuner.deployments.docker_mode import DockerMode
from corral.features.tuner.engines.inference_engine import find_inference_engine
from corral.features.tuner.model.tuning_spec import DeploymentMode, DockerOptions, ServedModel, TuningSpec

TASK = TuningSpec("t", ServedModel("org/llama"), "vllm", deployment_mode=DeploymentMode.DOCKER, env={"HF_HOME": "/hub"})
VLLM = find_inference_engine("vllm")


@pytest.mark.parametrize(
    ("tag", "image", "used"),
    [
        (None, None, "vllm/vllm-openai:latest"),
        ("v0.33.0", None, "vllm/vllm-openai:v0.33.0"),
        (None, "registry.test:5000/vllm", "registry.test:5000/vllm"),
        ("a", "registry.test:5000/vllm", "registry.test:5000/vllm:a"),
        ("a", "registry.test:5000/vllm:b@sha256:00", "registry.test:5000/vllm:a"),
    ],
)
def test_the_tag_of_a_task_replaces_that_of_the_image(tag: str | None, image: str | None, used: str) -> None:
    spec = replace(TASK, runtime_image_tag=tag, docker=DockerOptions(image))
    container = DockerMode().work(spec, VLLM, {}).container
    assert container is not None
    assert (container.image, container.shm_size_mib, container.network) == (used, 16 * 1024, None)


def test_a_directory_is_seen_at_model_and_requests_call_it_by_its_own_name() -> None:
    work = DockerMode().work(replace(TASK, model=ServedModel("/models/llama")), VLLM, {"tp": 2})
    assert work.container is not None
    assert [str(volume) for volume in work.container.volumes] == ["/models/llama:/model:ro"]
    assert work.env["MODEL_PATH"] == "/model"
    words = "vllm serve /model --served-model-name /models/llama --host {host} --port {port} --tensor-parallel-size 2"
    assert work.command == tuple(words.split())


def test_a_model_of_the_hub_is_kept_in_the_cache_of_its_user() -> None:
    work = DockerMode().work(TASK, VLLM, {})
    assert work.container is not None
    (volume,) = work.container.volumes
    assert (volume.source, volume.read_only, work.env["HF_HOME"]) == ("/hub", False, volume.target)
    assert work.env["MODEL_PATH"] == "org/llama"


def test_the_command_that_serves_so_tells_no_secret() -> None:
    spec = replace(TASK, env={**TASK.env, "HF_TOKEN": "hf_secret"})
    command = DockerMode().serving_command(spec, VLLM, {"tp": 2}, 2)
    assert command.startswith("corral run --image vllm/vllm-openai:latest --gpus 2 --shm-size 16G --volume /hub:")
    assert '--env "HF_TOKEN=$HF_TOKEN" -- vllm serve' in command
    assert "secret" not in command
