"""A config is understood whatever its family calls the fields, or what it lacks is said."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.preflight.model_config import shape_of
from corral.core.preflight.model_shape import ModelShape, SlidingWindow
from tests.core.preflight.test_estimate import GPT_2, LLAMA_3_8B, shape


def test_the_language_part_of_a_multimodal_model_counts() -> None:
    nested = {"model_type": "llava", "torch_dtype": "float16", "text_config": {**LLAMA_3_8B, "torch_dtype": "bfloat16"}}
    assert shape(nested) == shape(LLAMA_3_8B)


def test_old_names_of_fields_are_understood() -> None:
    read = shape(GPT_2)
    assert (read.layers, read.hidden, read.intermediate, read.max_context) == (12, 768, 3072, 1024)
    assert read.tied
    assert not read.gated


@pytest.mark.parametrize(
    ("quantization", "name"),
    [
        ({"quant_method": "awq", "bits": 4}, "awq"),
        ({"quant_method": "gptq", "bits": 4}, "gptq"),
        ({"quant_method": "gptq", "bits": 8}, "int8"),
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "mxfp4"}, "fp4"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "fp4"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
            },
            "fp8",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}}},
            },
            "int4",
        ),
        ({"quant_method": "unheard-of"}, None),
        ("nonsense", None),
    ],
)
def test_quantisation_is_understood(quantization: Any, name: str | None) -> None:
    assert shape({**LLAMA_3_8B, "quantization_config": quantization}).quantization == name


@pytest.mark.parametrize(
    ("fields", "window"),
    [
        ({"model_type": "mistral", "sliding_window": 4096}, SlidingWindow(4096, 32)),
        ({"sliding_window": 4096, "use_sliding_window": False}, None),
        ({"sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 16}, SlidingWindow(128, 16)),
        ({"sliding_window": None}, None),
    ],
)
def test_sliding_windows_are_understood(fields: dict[str, Any], window: SlidingWindow | None) -> None:
    read = shape({**LLAMA_3_8B, **fields})
    assert read.window == window


def test_what_is_no_transformer_says_what_it_lacks() -> None:
    assert shape_of({"model_type": "resnet", "hidden_size": 64}) == (
        "it has no num_hidden_layers, num_attention_heads, vocab_size, so it is no transformer that is known here"
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.dictionaries(st.sampled_from([*LLAMA_3_8B, "quantization_config", "text_config", "layer_types"]), json_values)
)
def test_no_config_at_all_raises(config: dict[str, Any]) -> None:
    assert isinstance(shape_of({**LLAMA_3_8B, **config}), ModelShape | str)


@pytest.mark.parametrize("field", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"])
def test_a_number_that_no_model_has_is_taken_for_missing(field: str) -> None:
    assert field in str(shape_of({**LLAMA_3_8B, field: 10**400}))
