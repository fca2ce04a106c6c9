"""What is known of inference servers, and what it makes of parameters."""

from dataclasses import replace
from typing import Any

import pytest

from corral.core.model.errors import Refused
from corral.features.tuner.engines.inference_engine import engine_of, find_inference_engine
from corral.features.tuner.model.tuning_spec import DeploymentMode, ServedModel, TuningSpec

PORT = "{port}"


def test_a_command_line_has_the_model_the_port_and_each_parameter_as_the_engine_calls_it() -> None:
    parameters = {"tp_size": 2, "__parallel__dp": 2, "__quant__kvcache_dtype": "fp8", "enable-x": True, "y": False}
    command = find_inference_engine("vllm/vllm-openai").command("org/llama", parameters, host="127.0.0.1", port=PORT)
    assert command[:3] == ("vllm", "serve", "org/llama")
    assert command[command.index("--port") + 1] == PORT
    flags = "--tensor-parallel-size 2 --data-parallel-size 2 --kv-cache-dtype fp8 --enable-x"
    assert " ".join(command).endswith(flags)
    sglang = find_inference_engine("sglang").command("org/llama", {"mem_fraction_static": 0.8}, host="h", port=PORT)
    assert sglang[2] == "sglang.launch_server"
    assert sglang[-2:] == ("--mem-fraction-static", "0.8")


TYPICAL: dict[str, Any] = {
    "tp-size": 4,
    "dcp": 2,
    "__parallel__cp": 1,
    "enable-prefix-caching": False,
    "enforce-eager": False,
    "__quant__gemm_dtype": "auto",
    "__quant__attention_dtype": "auto",
    "__quant__kvcache_dtype": "fp8_e5m2",
    "dtype": "bfloat16",
}
SAID = "--served-model-name m --host h --port {port} --tensor-parallel-size 4 --decode-context-parallel-size 2"


@pytest.mark.parametrize(
    ("engine", "taken_from", "command"),
    [
        (
            "vllm",
            "vLLM 0.33.0",
            f"vllm serve m {SAID} --no-enable-prefix-caching --kv-cache-dtype fp8_e5m2 --dtype bfloat16",
        ),
        (
            "sglang",
            "SGLang 0.5.23",
            f"python3 -m sglang.launch_server --model-path m {SAID} --kv-cache-dtype fp8_e5m2 --dtype bfloat16",
        ),
    ],
)
def test_a_typical_combination_is_what_the_release_that_was_read_takes(
    engine: str, taken_from: str, command: str
) -> None:
    """What asks for nothing is left out; what is on by default is switched off."""
    found = find_inference_engine(engine)
    assert (found.taken_from, found.health, found.why_not(TYPICAL)) == (taken_from, "/health", None)
    assert " ".join(found.command("m", TYPICAL, host="h", port=PORT)) == command


@pytest.mark.parametrize("engine", ["vllm", "sglang", "stand-in"])
def test_what_an_engine_refuses_has_no_flag_there(engine: str) -> None:
    found = find_inference_engine(engine)
    assert not set(found.refused) & set(found.flags)
    asked = [found.why_not({name: 2}) for name in found.refused]
    assert asked == [f"{name} cannot be used with {engine}" for name in found.refused]
    nothing = dict.fromkeys(found.refused, 1)
    assert found.why_not(nothing) is None
    assert found.command("m", nothing, host="h", port=PORT) == found.command("m", {}, host="h", port=PORT)


@pytest.mark.parametrize(
    ("engine", "parameters", "why"),
    [
        ("sglang", {"tp": 2, "dcp": 4}, "sglang needs tp to be a multiple of dcp, and 2 is not a multiple of 4"),
        ("sglang", {"__parallel__cp": 2}, "cp cannot be used with sglang"),
        ("sglang", {"tp-size": 1, "dp-size": 2}, None),
        ("sglang", {"moe_dtype": "fp8"}, "moe_dtype cannot be used with sglang"),
        ("vllm", {"dcp-size": 2}, "vllm needs tp to be a multiple of dcp, and 1 is not a multiple of 2"),
        ("vllm", {"tp": "two", "dcp": 2}, None),
        ("vllm", {"context-parallel-size": 2}, None),
        ("vllm", {"cp": 1}, None),
    ],
)
def test_combinations_that_an_engine_cannot_run_are_known(
    engine: str, parameters: dict[str, Any], why: str | None
) -> None:
    assert find_inference_engine(engine).why_not(parameters) == why


def test_the_default_is_what_an_engine_does_where_nothing_is_said() -> None:
    engine = find_inference_engine("vllm")
    assert engine.is_default({"tp": 1, "gpu-memory-utilization": 0.92, "enable-prefix-caching": True})
    assert not engine.is_default({"tp": 2, "gpu-memory-utilization": 0.92})
    assert not engine.is_default({"something-else": 1})


def test_an_unknown_engine_is_refused_with_the_nearest() -> None:
    with pytest.raises(Refused, match="did you mean 'vllm'"):
        find_inference_engine("vlm")


@pytest.mark.parametrize(
    ("runtime", "said"),
    [
        ("srt-llama-3-3-70b-instruct-rt", {"tensor-parallel-size": 2}),
        ("vllm-llama", {"tensor-parallel-size": 2}),
        ("kserve-huggingfaceserver", {"tensor-parallel-size": 2}),
        ("our-own", {"tp-size": 2}),
    ],
)
def test_the_engine_of_a_runtime_in_a_cluster_is_in_its_name(runtime: str, said: dict[str, Any]) -> None:
    spec = TuningSpec("t", ServedModel("m"), runtime, deployment_mode=DeploymentMode.OME)
    assert engine_of(spec).options({"tp-size": 2}) == said
    assert engine_of(replace(spec, base_runtime="vllm", deployment_mode=DeploymentMode.DOCKER)).name == "vllm"
