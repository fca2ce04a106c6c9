"""Against published sizes: the estimate of the weights is at most 15 % too large, and never too small."""

import json
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

from corral.core.preflight.estimate import Estimate, InferenceSetup, estimate_local, estimate_named
from corral.core.preflight.known_models import known_shape
from corral.core.preflight.model_source import find_model
from corral.core.preflight.weights import UNCOUNTED, all_weights
from tests.core.preflight.published_models import PUBLISHED, Published

MIB = 2**20
KNOWN = tomllib.loads(files("corral.core.preflight").joinpath("known_models.toml").read_text())["model"]


def by_config(model: Published, directory: Path, setup: InferenceSetup) -> Estimate:
    (directory / "config.json").write_text(json.dumps(model.config))
    found = find_model(str(directory), {}, Path("/"))
    assert found is not None
    return estimate_local(found, setup)


@pytest.mark.parametrize("model", PUBLISHED, ids=lambda model: model.name)
def test_the_weights_by_config_and_by_name_are_at_most_15_percent_above_what_is_published(
    model: Published, tmp_path: Path
) -> None:
    named = estimate_named(model.name, InferenceSetup())
    assert isinstance(named, Estimate), named
    for found in (by_config(model, tmp_path, InferenceSetup()), named):
        assert 1 <= found.weights_mib * MIB / model.weight_bytes <= 1.15, found
        assert found.least_weights_mib * MIB <= model.weight_bytes, found


@pytest.mark.parametrize(
    ("name", "gigabytes"), [("nvidia/Qwen3.6-27B-NVFP4", 22), ("nvidia/Qwen3.6-35B-A3B-NVFP4", 23)]
)
def test_the_weights_of_an_unknown_model_in_mixed_precision_are_not_underestimated(name: str, gigabytes: int) -> None:
    found = estimate_named(name, InferenceSetup())
    assert isinstance(found, Estimate), found
    assert found.least_weights_mib * MIB <= gigabytes * 1e9 <= found.weights_mib * MIB


@pytest.mark.parametrize(
    ("name", "of_meta"),
    [
        ("meta-llama/Meta-Llama-3.1-405B-Instruct-FP8", True),
        ("/hub/models--meta-llama--Llama-3.1-405B-FP8/snapshots/b968826d9c46dd6066d109eabc6255188de91218", True),
        ("/models/Llama-3.1-405B-Instruct-FP8", True),
        ("neuralmagic/Meta-Llama-3.1-405B-Instruct-FP8-dynamic", False),
        ("/hub/models--nvidia--Llama-3.1-405B-Instruct-FP8/snapshots/main", False),
    ],
)
def test_files_that_are_known_of_one_publisher_are_meant_if_no_other_is_named(name: str, of_meta: bool) -> None:
    found = estimate_named(name, InferenceSetup())
    assert isinstance(found, Estimate), found
    assert (found.weights_mib * MIB > 480e9) == of_meta
    assert found.least_weights_mib * MIB < 410e9


@pytest.mark.parametrize("model", PUBLISHED, ids=lambda model: model.name)
@pytest.mark.parametrize(("tensor", "pipeline"), [(2, 1), (8, 1), (2, 2), (1, 3)])
def test_all_devices_together_have_room_for_the_whole_model(
    model: Published, tensor: int, pipeline: int, tmp_path: Path
) -> None:
    found = by_config(model, tmp_path, InferenceSetup(tensor, pipeline))
    assert found.weights_mib * MIB * tensor * pipeline >= model.weight_bytes


@pytest.mark.parametrize("model", KNOWN, ids=lambda model: model["names"][0])
def test_a_known_model_has_the_published_number_of_weights(model: dict[str, object]) -> None:
    names, billions = model["names"], model["billions"]
    assert isinstance(names, list)
    assert isinstance(billions, float | int)
    for name in names:
        shape = known_shape(f"org/Some-{name.replace(' ', '-')}-Instruct")
        assert shape is not None, name
        assert 0.99 < all_weights(shape) / (billions * 1e9) < 1.02, name
        assert all_weights(shape) * UNCOUNTED >= billions * 1e9


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "qwen2.5-7b"),
        ("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", "qwen3-8b"),
        ("nvidia/Llama-3.1-Nemotron-70B-Instruct-HF", "llama-3-70b"),
        ("llama3.1:8b", "llama-3-8b"),
        ("Qwen2.5-Coder-32B-Instruct", "qwen2.5-32b"),
        ("/models/mixtral_8x7b_instruct/1", "mixtral-8x7b"),
        ("/hub/models--Qwen--Qwen3-8B/snapshots/b968826d9c46dd6066d109eabc6255188de91218", "qwen3-8b"),
    ],
)
def test_a_longer_name_has_the_shape_of_the_known_one_in_it(name: str, known: str) -> None:
    assert known_shape(name) == known_shape(known) is not None


@pytest.mark.parametrize(
    "name",
    [
        *("DeepSeek-V3-Distill-3B", "llama-3-8b-vision", "tiny-random-deepseek-v3", "llama-3-18b", "llama-3-8bit"),
        *("Qwen3-9B", "distilgpt2", "my-dbrxlike", "llama", "8b", ""),
    ],
)
def test_a_name_that_only_resembles_a_known_one_is_not_known(name: str) -> None:
    assert known_shape(name) is None
