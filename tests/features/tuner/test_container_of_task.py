"""The container that a task's server gets, from what its file says."""

from dataclasses import replace
from pathlib import Path

import pytest

from corral.config.tuner import TunerSettings
from corral.core.model.errors import Refused
from corral.core.model.jobs.job import Request
from corral.features.tuner.deployments.deployment import WantedGpus
from corral.features.tuner.deployments.docker_mode import DockerMode
from corral.features.tuner.deployments.modes import mode_of
from corral.features.tuner.engines.inference_engine import check_images, engine_on_site, find_inference_engine
from corral.features.tuner.model.tuning_spec import DeploymentMode, DockerOptions, ServedModel, TuningSpec

TASK = TuningSpec("t", ServedModel("org/llama"), "vllm", deployment_mode=DeploymentMode.DOCKER, env={"HF_HOME": "/hub"})
DOCKER = DockerMode("/mnt/data/models")
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
    container = DOCKER.work(spec, VLLM, {}).container
    assert container is not None
    assert (container.image, container.shm_size_mib, container.network) == (used, 16 * 1024, None)


def test_a_site_has_images_health_checks_and_a_root_of_models_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "llama").mkdir()
    site = TunerSettings(str(tmp_path), (("vllm", "registry.test/vllm:1"),), (("vllm", "/ready"), ("ours", "/up")))
    engine, mode = engine_on_site(TASK, site), mode_of(DeploymentMode.DOCKER, site)
    assert (engine.image, engine.health) == ("registry.test/vllm:1", "/ready")
    command = mode.serving_command(replace(TASK, model=ServedModel("llama")), engine, {}, WantedGpus(1, Request()))
    assert f"--image registry.test/vllm:1 --shm-size 16G --workdir / --volume {tmp_path}/llama:/model:ro" in command
    assert "vllm serve /model --served-model-name llama" in command
    ours = replace(TASK, base_runtime="ours", deployment_mode=DeploymentMode.OME)
    assert engine_on_site(ours, site).health == "/up"
    assert engine_on_site(replace(TASK, base_runtime="sglang"), site).image == "lmsysorg/sglang:latest"
    with pytest.raises(Refused, match=r"config.yaml, line 3: tuner.images.vlm: no engine has this name.*'vllm'"):
        check_images(TunerSettings(images=(("vlm", "a"),)), "config.yaml, line 3")


def test_a_directory_is_seen_at_model_and_requests_call_it_by_its_own_name() -> None:
    work = DOCKER.work(replace(TASK, model=ServedModel("/models/llama")), VLLM, {"tp": 2})
    assert work.container is not None
    assert [str(volume) for volume in work.container.volumes] == ["/models/llama:/model:ro"]
    assert work.env["MODEL_PATH"] == "/model"
    words = "vllm serve /model --served-model-name /models/llama --host {host} --port {port} --tensor-parallel-size 2"
    assert work.command == tuple(words.split())


def test_a_model_of_the_hub_is_kept_in_the_cache_of_its_user() -> None:
    work = DOCKER.work(TASK, VLLM, {})
    assert work.container is not None
    (volume,) = work.container.volumes
    assert (volume.source, volume.read_only, work.env["HF_HOME"]) == ("/hub", False, volume.target)
    assert work.env["MODEL_PATH"] == "org/llama"


def test_the_command_that_serves_so_names_variables_and_tells_no_value_of_one() -> None:
    env = {"HF_HOME": "/hub", "HF_TOKEN": "hf_secret", "HOME": "/of-secret", "OTHER": "other-secret"}
    command = DOCKER.serving_command(replace(TASK, env=env), VLLM, {"tp": 2}, WantedGpus(2, Request(devices=2)))
    assert command.startswith("corral run --gpus 2 --env HF_TOKEN --env HOME --env OTHER --image vllm/vllm-openai")
    assert '--volume "${HF_HOME:-$HOME/.cache/huggingface}:/tmp/huggingface" -- vllm serve' in command
    assert "secret" not in command
    assert "/hub" not in command
