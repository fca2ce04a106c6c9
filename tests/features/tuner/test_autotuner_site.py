"""What the clients of another autotuner ask of the site."""

from tests.api.world import UUIDS, Served
from tests.features.tuner.test_autotuner_routes import ask


def test_presets_are_listed_with_their_fields(served: Served) -> None:
    listed = ask(served, "GET", "/presets/").data
    known = {(preset["category"], preset["name"]) for preset in listed}
    assert {("parallel", name) for name in ("single-gpu", "high-throughput", "balanced")} <= known
    named = ("default", "kv-cache-fp8", "dynamic-fp8", "bf16-stable", "aggressive-moe")
    assert {("quant", name) for name in named} <= known
    one = next(preset for preset in listed if preset["name"] == "balanced")
    assert ask(served, "GET", f"/presets/{one['id']}").data == one
    assert one["parameters"] == {"tp": 2, "pp": 1, "dp": 4}
    assert ask(served, "GET", "/presets/99").status == 404


def test_the_flags_that_are_known_of_an_engine_are_told_and_which_both_have(served: Served) -> None:
    vllm = ask(served, "GET", "/runtime-params/vllm").data
    counts = ask(served, "GET", "/runtime-params/").data
    both = ask(served, "GET", "/runtime-params/compatibility").data
    assert vllm["count"] == counts["vllm_count"] == len(vllm["parameters"]) > 10
    assert "tensor-parallel-size" in both["common"]
    assert sorted(both["common"] + both["vllm_only"]) == vllm["parameters"]
    assert len(both["common"]) == counts["common_count"] == both["stats"]["common_count"]
    assert ask(served, "GET", "/runtime-params/vlm").status == 404


def test_what_was_not_read_of_a_gpu_is_null_and_none_can_be_had_then(served: Served) -> None:
    status = ask(served, "GET", "/dashboard/gpu-status").data
    assert (status["available"], [gpu["uuid"] for gpu in status["gpus"]]) == (False, list(UUIDS))
    assert {gpu["utilization_percent"] for gpu in status["gpus"]} == {None}
    cluster = ask(served, "GET", "/dashboard/cluster-gpu-status").data
    assert (cluster["total_gpus"], {gpu["node_name"] for gpu in cluster["nodes"]}) == (len(UUIDS), {"here"})
    assert cluster["total_allocatable_gpus"] == sum(gpu["allocatable"] for gpu in cluster["nodes"])


def test_the_server_says_what_it_is(served: Served) -> None:
    assert ask(served, "GET", "/system/health").data["status"] == "healthy"
    assert ask(served, "GET", "/system/info").data["available_runtimes"] == ["sglang", "vllm"]
