"""How many GPUs a combination takes: as its engine counts them, whatever the spelling."""

from importlib.resources import files
from typing import Any

import pytest

from corral.core.model.errors import Refused
from corral.core.model.serving.parallelism import WORLDS, engine_in, parallel_sizes, world_size
from corral.core.model.serving.presets import without_presets


@pytest.mark.parametrize(
    "name",
    [
        *("tp", "tpsize", "tp_size", "tp-size", "TP-Size", "--tp", "tensor-parallel-size", "tensor_parallel_size"),
        *("__parallel__tp", "__parallel__tp_size", "--tensor-parallel-size"),
    ],
)
@pytest.mark.parametrize("size", [4, "4", " 4 "])
def test_every_spelling_of_an_axis_counts(name: str, size: Any) -> None:
    assert parallel_sizes({name: size, "max-num-seqs": 8}) == {"tp": 4}


def test_a_preset_counts_with_its_fields_and_what_is_said_beside_it_counts_more() -> None:
    assert parallel_sizes({"__parallel__preset": "large-model-tp"}) == {"tp": 8, "pp": 1, "dp": 1}
    assert world_size("vllm", {"__parallel__preset": "large-model-tp", "tp": 2}) == 2


def test_what_is_left_out_of_the_command_line_has_no_size() -> None:
    assert parallel_sizes({"tp": None, "dp": False, "enable-dp-attention": True}) == {}


@pytest.mark.parametrize("size", [0, -1, 2.0, "two", "", True, 5000, [4], {"values": [4]}])
def test_a_size_that_is_none_is_refused_by_the_name_that_was_given(size: Any) -> None:
    with pytest.raises(Refused, match=r"tp-size: .* is no size of parallelism"):
        parallel_sizes({"tp-size": size})


EACH_TWO = {"tp": 2, "pp": 2, "dp": 2, "cp": 2, "dcp": 2}


@pytest.mark.parametrize(
    ("engine", "parameters", "gpus"),
    [
        ("vllm", EACH_TWO, 2 * 2 * 2 * 2),
        ("vllm", {"tp": 4, "dcp": 4}, 4),
        ("vllm/vllm-openai", {"tensor-parallel-size": 2, "data-parallel-size": 3}, 6),
        ("sglang", EACH_TWO, 2 * 2 * 2),
        ("sglang", {"tp": 2, "dp": 4}, 8),
        ("sglang", {"tp": 8, "dp": 4, "enable-dp-attention": True}, 8),
        ("sglang", {"tp": 8, "pp": 2, "dp": 4, "enable_dp_attention": "true"}, 16),
        ("sglang", {"tp": 8, "dp": 4, "enable-dp-attention": False}, 32),
        ("sglang", {"tp": 8, "dp": 4, "enable-dp-attention": "false"}, 32),
        ("vllm", {"tp": 2, "dp": 4, "enable-dp-attention": True}, 8),
        ("tensorrt-llm", EACH_TWO, 2 * 2 * 2),
        ("nvcr/tensorrt-llm/release", {"tp_size": 8, "moe_ep": 4}, 8),
        ("srt-llama-3-3-70b-instruct-rt", {"tpsize": 4, "dp": 2}, 8),
        ("kserve-huggingfaceserver", {"tpsize": 4, "dcp": 2}, 4),
        ("our-own", EACH_TWO, 2 * 2 * 2),
        ("our-own", {"tp": 2, "pp": 3, "dp": 2, "dcp": 4}, 2 * 3 * 4),
        ("vllm", {}, 1),
    ],
)
def test_each_engine_counts_as_it_does(engine: str, parameters: dict[str, Any], gpus: int) -> None:
    assert world_size(engine, parameters) == gpus


@pytest.mark.parametrize(
    ("preset", "gpus"),
    [("single-gpu", 1), ("balanced", 8), ("large-model-tp-pp", 16), ("long-context", 4), ("moe-optimized", 16)],
)
def test_the_gpus_of_a_preset(preset: str, gpus: int) -> None:
    assert world_size("vllm", {"__parallel__preset": preset}) == gpus
    assert world_size("vllm", without_presets({"__parallel__preset": preset})) == gpus


def test_the_worlds_are_those_of_the_versions_in_the_engine_files() -> None:
    """With a new version of an engine its world is read again in its source, and then this test is changed."""
    folder = files("corral.features.tuner.engines")
    named = {
        entry.name.removesuffix(".toml"): entry.read_text()
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    }
    assert 'taken_from = "vLLM 0.33.0"' in named["vllm"]
    assert 'taken_from = "SGLang 0.5.23"' in named["sglang"]
    assert all(engine in WORLDS or engine_in(engine) is None for engine in named)
