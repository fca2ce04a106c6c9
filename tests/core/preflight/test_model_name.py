"""A name tells a size, if it tells one, and never another's."""

import pytest

from corral.core.preflight.model_name import billions_in, quantization_in, typical_shape


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("meta-llama/Llama-3-70B-Instruct", 70),
        ("llama-3-2-1b-instruct", 1),
        ("qwen2.5-0.5b", 0.5),
        ("my-17b", 17),
        ("Llama-4-Scout-17B-16E", 17),
        ("Qwen3-30B-A3B", 30),
        ("facebook/opt-125m", 0.125),
        ("Mixtral-8x7B-v0.1", 46.48),
        ("/models/7b/llama-13b-chat", 13),
        ("gpt2", None),
        ("bert-4bit", None),
        ("0b", 0),
    ],
)
def test_the_size_in_a_name(name: str, billions: float | None) -> None:
    found = billions_in(name)
    assert found == (None if billions is None else pytest.approx(billions))


def test_the_quantisation_in_a_name() -> None:
    assert quantization_in("Llama-3-70B-Instruct-AWQ") == "awq"
    assert quantization_in("Llama-3-70B") is None


def test_a_typical_shape_is_that_of_the_nearest_size() -> None:
    assert typical_shape(7).layers == 32
    assert typical_shape(0.001).layers == 24
    assert typical_shape(1000).layers == 126
