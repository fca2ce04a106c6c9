"""A name tells a size, if it tells one, and never another's."""

import pytest

from corral.core.preflight.model_name import billions_in, format_in, model_part, other_format_in, typical_shape
from corral.core.preflight.weights import all_weights


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("meta-llama/Llama-3-70B-Instruct", 70),
        ("llama-3-2-1b-instruct", 1),
        ("qwen2.5-0.5b", 0.5),
        ("my-17b", 17),
        ("Qwen3-30B-A3B", 30),
        ("vicuna7b", 7),
        ("llama3.1:8b", 8),
        ("bloom-7b1", 7.1),
        ("Ring-1T", 1000),
        ("facebook/opt-125m", 0.125),
        ("Mixtral-8x7B-v0.1", 45.22),
        ("a-7b-distilled-from-a-70b", 70),
        ("/models/7b/llama-13b-chat", 13),
        ("/hub/models--meta-llama--Llama-2-7b-hf/snapshots/5f0b02c75b57c5855da9ae460ce51323ea669d8a", 7),
        ("/models/llama-13b/1", 13),
    ],
)
def test_the_size_in_a_name(name: str, billions: float) -> None:
    assert billions_in(name) == pytest.approx(billions)


@pytest.mark.parametrize(
    "name", ["gpt2", "bert-4bit", "0b", "", "/", "/models/70b/gpt2", "gemma-3n-E4B", "some-A3B", "9" * 15 + "b", "base"]
)
def test_a_name_without_a_size_says_that(name: str) -> None:
    assert "states no size such as 7B" in str(billions_in(name))


def test_the_size_of_what_one_token_uses_is_not_that_of_the_model() -> None:
    assert "which one token uses" in str(billions_in("Llama-5-Tern-17B-16E"))


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("Llama-3-70B-Instruct-AWQ", "awq"),
        ("Qwen2.5-72B-Instruct-GPTQ-Int8", "int8"),
        ("Qwen2.5-72B-Instruct-GPTQ-Int4", "gptq"),
        ("Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "int4"),
        ("Llama-3.3-70B-Instruct-FP8-dynamic", "fp8"),
        ("Llama-3.1-405B-Instruct-NVFP4", "fp4"),
        ("DeepSeek-V3-bf16", "bfloat16"),
        ("some-7b-bnb-4bit", "bitsandbytes"),
        ("some-7b-4bit", "int4"),
        ("/fp8/Llama-3-70B", None),
        ("Llama-3-70B", None),
    ],
)
def test_the_format_in_a_name(name: str, format_: str | None) -> None:
    assert format_in(name) == format_


@pytest.mark.parametrize(
    ("name", "format_"),
    [("Llama-3-8B-GGUF", "gguf"), ("llama-3-8b-q4_k_m", "q4_k_m"), ("x-7b-exl2", "exl2"), ("mlx-7b-4bit", "mlx")],
)
def test_a_format_whose_size_is_not_known_is_told(name: str, format_: str) -> None:
    assert other_format_in(name) == format_
    assert other_format_in("Qwen2.5-7B-Instruct-AWQ") is None


@pytest.mark.parametrize(
    ("name", "part"), [("org/Model-7B/", "model-7b"), ("/data/Model-7B/snapshots/main", "model-7b"), ("/", "")]
)
def test_the_part_of_a_path_that_names_the_model(name: str, part: str) -> None:
    assert model_part(name) == part


@pytest.mark.parametrize(
    "name",
    ["1x" * 30_000, "8x7b" * 15_000, "7b-" * 20_000, "a-" * 30_000 + "70b"],
    ids=["experts", "mixtures", "sizes", "words"],
)
def test_of_a_long_name_only_the_end_is_read(name: str) -> None:
    """Reading all of it would take seconds, for each combination of a task."""
    assert len(model_part(name)) == 256
    assert billions_in(name) == billions_in(name[-256:])


@pytest.mark.parametrize("billions", [0.1, 0.125, 0.5, 1, 3, 7, 8, 14, 34, 70, 104, 236, 405, 671, 1000, 100_000])
def test_a_typical_shape_has_the_size_that_is_asked(billions: float) -> None:
    assert all_weights(typical_shape(billions)) / 1e9 == pytest.approx(billions, rel=0.01)


def test_a_typical_shape_is_that_of_the_nearest_size() -> None:
    assert [typical_shape(billions).layers for billions in (0.001, 7, 1000)] == [12, 32, 126]
