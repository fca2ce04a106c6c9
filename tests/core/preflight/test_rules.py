"""Real combinations of driver, runtime, device and precision get the verdict that their makers' tables give."""

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.model.devices.device import VirtualLayer
from corral.core.model.devices.means import Means
from corral.core.model.version import version_of
from corral.core.ports.preflight import Effect, Place, Workload
from corral.core.preflight.rules import blocking, check
from corral.vendors.nvidia.compatibility import compute_of_model

GUIDE = "NVIDIA CUDA Compatibility guide, minor version compatibility, tables 1 and 2"
NOTES = "CUDA Toolkit release notes, toolkit and corresponding driver versions"
ARCHS = "CUDA Compiler Driver documentation, GPU feature list; CUDA 13.0 release notes, deprecated architectures"
CC = "NVIDIA compute capability table; CUDA programming guide, arithmetic by compute capability"
VLLM = "vLLM documentation, quantization, supported hardware"
INSTALL = "vLLM and SGLang installation pages, requirements"
SUITE = "accelerator suite, driver and runtime compatibility, formal rules and virtualization requirements"
MPS = "NVIDIA MPS documentation, prerequisites; accelerator suite, MPS constraints"


class Combination(NamedTuple):
    driver: str
    runtime: str
    device: str
    precision: str | None
    verdict: str
    source: str


OK, WARN, BLOCK = "ok", "warn", "block"

COMBINATIONS = [
    # Driver against runtime, by major version.
    Combination("550.54.14", "12.4", "NVIDIA A100-SXM4-80GB", None, OK, NOTES),
    Combination("550.144.03", "12.4", "NVIDIA A30", None, OK, NOTES),
    Combination("515.65.01", "11.7", "Tesla T4", None, OK, NOTES),
    Combination("535.183.01", "12.2", "NVIDIA L40S", None, OK, NOTES),
    Combination("580.95.05", "13.0", "NVIDIA H100 80GB HBM3", None, OK, NOTES),
    Combination("580.95.05", "12.8", "NVIDIA B200", None, OK, GUIDE),
    Combination("570.124.06", "12.8", "NVIDIA GeForce RTX 5090", None, OK, NOTES),
    Combination("550.54.14", "11.8", "NVIDIA H100 PCIe", None, OK, GUIDE),
    Combination("515.65.01", "12.1", "Tesla T4", None, BLOCK, GUIDE),
    Combination("470.82.01", "12.0", "NVIDIA A100-PCIE-40GB", None, BLOCK, GUIDE),
    Combination("550.54.14", "13.0", "NVIDIA H200", None, BLOCK, GUIDE),
    Combination("575.57.08", "13.1", "NVIDIA B200", None, BLOCK, GUIDE),
    Combination("450.80.02", "12.4", "Tesla V100-SXM2-16GB", None, BLOCK, GUIDE),
    # Within a major version, from 11 on.
    Combination("525.60.13", "12.4", "NVIDIA A100-SXM4-80GB", None, WARN, GUIDE),
    Combination("535.54.03", "12.8", "NVIDIA H100 80GB HBM3", None, WARN, GUIDE),
    Combination("450.80.02", "11.8", "NVIDIA A100-SXM4-40GB", None, WARN, GUIDE),
    Combination("470.57.02", "11.7", "Tesla T4", None, WARN, GUIDE),
    Combination("580.65.06", "13.1", "NVIDIA H200", None, WARN, GUIDE),
    Combination("450.51.06", "11.4", "NVIDIA A100-SXM4-40GB", None, BLOCK, GUIDE),
    # Before 11 every minor version needs its own driver.
    Combination("418.39", "10.1", "Tesla V100-PCIE-16GB", None, OK, GUIDE),
    Combination("410.48", "10.1", "Tesla V100-PCIE-16GB", None, BLOCK, GUIDE),
    Combination("418.87", "10.2", "Tesla T4", None, BLOCK, GUIDE),
    # More than one major version behind.
    Combination("525.60.13", "10.2", "Tesla V100-PCIE-32GB", None, WARN, SUITE),
    Combination("580.65.06", "11.8", "NVIDIA A100-SXM4-80GB", None, WARN, SUITE),
    Combination("580.65.06", "12.4", "NVIDIA A100-SXM4-80GB", None, OK, SUITE),
    # Runtime against device.
    Combination("580.65.06", "13.0", "Tesla V100-SXM2-32GB", None, BLOCK, ARCHS),
    Combination("580.65.06", "13.0", "Tesla P100-PCIE-16GB", None, BLOCK, ARCHS),
    Combination("580.65.06", "13.0", "Tesla T4", None, OK, ARCHS),
    Combination("535.54.03", "11.7", "NVIDIA H100 PCIe", None, WARN, ARCHS),
    Combination("535.54.03", "11.7", "NVIDIA GeForce RTX 4090", None, WARN, ARCHS),
    Combination("570.86.15", "12.4", "NVIDIA B200", None, WARN, ARCHS),
    Combination("570.86.15", "12.6", "NVIDIA GeForce RTX 5080", None, WARN, ARCHS),
    Combination("455.32.00", "11.0", "NVIDIA GeForce RTX 3090", None, WARN, ARCHS),
    # Precision against device.
    Combination("550.54.14", "12.4", "Tesla V100-PCIE-16GB", "bfloat16", BLOCK, CC),
    Combination("550.54.14", "12.1", "Tesla T4", "bfloat16", BLOCK, CC),
    Combination("550.54.14", "12.1", "NVIDIA A10G", "bfloat16", OK, CC),
    Combination("550.54.14", "12.1", "NVIDIA A100-SXM4-80GB", "bf16", OK, CC),
    Combination("550.54.14", "12.1", "Tesla V100-PCIE-16GB", "half", OK, CC),
    Combination("550.54.14", "12.1", "Tesla P40", "float16", WARN, CC),
    Combination("550.54.14", "12.1", "Tesla T4", "tf32", WARN, CC),
    Combination("550.54.14", "12.1", "NVIDIA L4", "fp8", OK, VLLM),
    Combination("550.54.14", "12.1", "NVIDIA H100 80GB HBM3", "fp8", OK, VLLM),
    Combination("550.54.14", "12.1", "NVIDIA A100-SXM4-80GB", "fp8", WARN, VLLM),
    Combination("550.54.14", "12.1", "NVIDIA A40", "fp8", WARN, VLLM),
    Combination("550.54.14", "12.1", "Tesla T4", "fp8", BLOCK, VLLM),
    Combination("550.54.14", "12.1", "Tesla V100-PCIE-16GB", "awq", BLOCK, VLLM),
    Combination("550.54.14", "12.1", "Tesla T4", "awq", OK, VLLM),
    Combination("550.54.14", "12.1", "Tesla V100-PCIE-16GB", "gptq", OK, VLLM),
    Combination("550.54.14", "12.1", "Tesla V100-PCIE-16GB", "int8", WARN, VLLM),
    Combination("570.86.15", "12.8", "NVIDIA B200", "nvfp4", OK, CC),
    Combination("570.86.15", "12.8", "NVIDIA H200", "mxfp4", WARN, CC),
]


def verdict(work: Workload, place: Place, *, strict: bool = False) -> str:
    findings = check(work, place, strict=strict)
    return BLOCK if blocking(findings) else WARN if findings else OK


@pytest.mark.parametrize(
    "case", COMBINATIONS, ids=lambda c: f"{c.driver} {c.runtime} {c.device} {c.precision} {c.verdict}"
)
def test_a_real_combination_gets_its_makers_verdict(case: Combination) -> None:
    compute = compute_of_model(case.device)
    assert compute is not None
    work = Workload(runtime=version_of(case.runtime), dtype=case.precision)
    assert verdict(work, Place(case.device, driver=case.driver, compute=compute)) == case.verdict


def test_there_are_at_least_forty_combinations_and_no_two_alike() -> None:
    assert len({combination[:4] for combination in COMBINATIONS}) == len(COMBINATIONS) >= 40


class Situation(NamedTuple):
    claim: str
    work: dict[str, Any]
    place: dict[str, Any]
    verdict: str
    source: str


MANAGER = VirtualLayer("GPU-Manager", (12, 3))
HAMI = VirtualLayer("HAMi", (12, 4))
SHARE: dict[str, Any] = {"share_milli": 500, "means": Means.TIMESLICE}
A100: dict[str, Any] = {"model": "NVIDIA A100", "compute": (8, 0), "cuda": (12, 4), "device_memory_mib": 81920}

SITUATIONS = [
    Situation(
        "a runtime newer than the virtual layer", {"runtime": (12, 4)}, {"virtual": MANAGER, **SHARE}, BLOCK, SUITE
    ),
    Situation("a runtime as old as the virtual layer", {"runtime": (12, 2)}, {"virtual": MANAGER, **SHARE}, OK, SUITE),
    Situation(
        "a runtime a major version behind the layer", {"runtime": (11, 8)}, {"virtual": HAMI, **SHARE}, BLOCK, SUITE
    ),
    Situation(
        "the layer and a driver of another major",
        {"runtime": (12, 4)},
        {"virtual": HAMI, **SHARE, "cuda": (13, 0)},
        BLOCK,
        SUITE,
    ),
    Situation(
        "CUDA 12.4 on GPU-Manager of that baseline",
        {"runtime": (12, 4)},
        {"virtual": VirtualLayer("GPU-Manager", (12, 4)), **SHARE},
        BLOCK,
        SUITE,
    ),
    Situation("a whole device does without the layer", {"runtime": (11, 8)}, {"virtual": MANAGER}, OK, SUITE),
    Situation("a virtual GPU of a MIG device", {}, {"virtual": MANAGER, "mig": True, **SHARE}, BLOCK, SUITE),
    Situation("MPS on Volta", {}, {"means": Means.MPS, "compute": (7, 0)}, OK, MPS),
    Situation("MPS on Pascal", {}, {"means": Means.MPS, "compute": (6, 1)}, BLOCK, MPS),
    Situation("MPS with a driver for CUDA 11.4", {}, {"means": Means.MPS, "cuda": (11, 4)}, BLOCK, MPS),
    Situation("MPS on a MIG device", {}, {"means": Means.MPS, "mig": True}, BLOCK, MPS),
    Situation("MPS and a share split over two", {}, {"means": Means.MPS, "devices": 2, "share_milli": 600}, BLOCK, MPS),
    Situation(
        "tensor parallel over MIG slices",
        {"world_size": 2},
        {"means": Means.MIG, "devices": 2},
        BLOCK,
        "NVIDIA MIG user guide, device enumeration",
    ),
    Situation("one process on one MIG slice", {"world_size": 1}, {"means": Means.MIG}, OK, "NVIDIA MIG user guide"),
    Situation("Paddle on a share", {"framework": "paddle"}, SHARE, WARN, "accelerator suite, Paddle troubleshooting"),
    Situation(
        "Paddle on a share, best fit", {"framework": "paddle", "allocator": "naive_best_fit"}, SHARE, OK, "the same"
    ),
    Situation("Paddle on a whole device", {"framework": "paddle"}, {}, OK, "the same"),
    Situation(
        "32 heads over 3 devices", {"tensor_parallel": 3, "heads": 32}, {"devices": 3}, BLOCK, "vLLM engine arguments"
    ),
    Situation("32 heads over 4 devices", {"tensor_parallel": 4, "heads": 32}, {"devices": 4}, OK, "the same"),
    Situation("heads that are not known", {"tensor_parallel": 3}, {"devices": 3}, OK, "missing is not known"),
    Situation("more ranks than devices", {"world_size": 4}, {"devices": 2}, BLOCK, "torchrun documentation"),
    Situation("fewer ranks than devices", {"world_size": 1}, {"devices": 2}, WARN, "torchrun documentation"),
    Situation("a model larger than its grant", {"need_mib": 90_000}, {}, BLOCK, "arithmetic"),
    Situation("a context larger than its grant", {"need_mib": 20_000, "want_mib": 90_000}, {}, WARN, "arithmetic"),
    Situation("a model within its grant", {"need_mib": 20_000, "want_mib": 80_000}, {}, OK, "arithmetic"),
    Situation(
        "vLLM unlimited on a share",
        {"framework": "vllm"},
        {**SHARE, "memory_mib": 40960},
        BLOCK,
        "vLLM engine arguments",
    ),
    Situation(
        "vLLM told its part",
        {"framework": "vllm", "memory_fraction": 0.45},
        {**SHARE, "memory_mib": 40960},
        OK,
        "vLLM engine arguments",
    ),
    Situation("vLLM on a whole device", {"framework": "vllm"}, {}, OK, "vLLM engine arguments"),
    Situation("vLLM on Pascal", {"framework": "vllm"}, {"compute": (6, 1)}, BLOCK, INSTALL),
    Situation("SGLang on Volta", {"framework": "sglang"}, {"compute": (7, 0)}, BLOCK, INSTALL),
    Situation(
        "nothing known", {}, {"compute": None, "cuda": None, "device_memory_mib": None}, OK, "missing is not known"
    ),
]


@pytest.mark.parametrize("case", SITUATIONS, ids=lambda case: case.claim)
def test_a_situation_gets_its_verdict(case: Situation) -> None:
    assert verdict(Workload(**case.work), Place(**{**A100, **case.place})) == case.verdict


def test_a_strict_site_blocks_what_minor_compatibility_would_bear() -> None:
    work, place = Workload(runtime=(12, 8)), Place(cuda=(12, 4))
    assert (verdict(work, place), verdict(work, place, strict=True)) == (WARN, BLOCK)
    assert verdict(Workload(runtime=(12, 4)), place, strict=True) == OK


def test_heads_that_do_not_divide_are_told_the_nearest_number_that_does() -> None:
    (finding,) = check(Workload(tensor_parallel=6, heads=32), Place(devices=6))
    assert finding.fix == "tensor parallel size 4 and --gpus 4"


def test_a_model_too_large_for_a_slice_is_not_told_to_spread_over_slices() -> None:
    (finding,) = check(Workload(need_mib=20_000), Place(means=Means.MIG, device_memory_mib=9728))
    assert "larger slice" in finding.fix
    assert "tensor parallel" not in finding.fix


@pytest.mark.parametrize(
    ("need_mib", "fix"),
    [(20_000, "ask for more of the device: --gpu-mem 20000M"), (90_000, "spread it: --gpus 2 with")],
)
def test_a_model_too_large_for_its_share_is_told_to_ask_for_more_where_the_device_has_it(
    need_mib: int, fix: str
) -> None:
    place = Place(**A100, share_milli=100, memory_mib=8192, means=Means.TIMESLICE)
    (finding,) = check(Workload(need_mib=need_mib), place)
    assert finding.fix.startswith(fix)


def test_a_runtime_older_than_the_layer_by_a_major_version_is_not_told_that_older_would_do() -> None:
    place = Place(**A100, virtual=HAMI, **SHARE)
    (finding,) = check(Workload(runtime=(11, 8)), place)
    assert finding.fix.startswith("install a build for CUDA 12, up to 12.4; ")


def test_a_finding_says_what_why_and_the_fix() -> None:
    (finding,) = check(Workload(dtype="bfloat16"), Place("Tesla V100", compute=(7, 0)))
    assert finding.effect is Effect.BLOCK
    assert finding.what == "the program asks for bfloat16 and Tesla V100 has compute capability 7.0"
    assert finding.why == "bfloat16 needs 8.0 or newer"
    assert finding.fix == "--dtype=half; or ask for a device that has it: --min-compute 8.0"


def test_the_fix_of_an_old_driver_names_a_build_and_a_driver() -> None:
    (finding,) = check(Workload(runtime=(13, 0)), Place(driver="550.54.14"))
    assert "cu124" in finding.fix
    assert "580.65.06" in finding.fix


def test_the_fix_of_a_greedy_server_is_its_flag_with_its_part() -> None:
    (finding,) = check(Workload(framework="vllm"), Place(**{**A100, **SHARE, "memory_mib": 20480}))
    assert finding.fix == "--gpu-memory-utilization 0.25"


def test_the_fix_of_a_long_context_is_one_that_fits() -> None:
    work = Workload(framework="vllm", need_mib=1, want_mib=90_000, fitting_context=8192)
    (finding,) = check(work, Place(**A100))
    assert finding.fix == "--max-model-len 8192"


def test_what_blocks_comes_first() -> None:
    work = Workload(runtime=(12, 8), dtype="bfloat16")
    effects = [finding.effect for finding in check(work, Place(cuda=(12, 4), compute=(7, 5)))]
    assert effects == [Effect.BLOCK, Effect.WARN]


cuda_versions = st.tuples(st.integers(9, 14), st.integers(0, 9))


@given(runtime=cuda_versions, cuda=cuda_versions)
def test_a_newer_driver_never_makes_a_runtime_that_ran_blocked(runtime: tuple[int, int], cuda: tuple[int, int]) -> None:
    newer = (cuda[0], cuda[1] + 1)
    if verdict(Workload(runtime=runtime), Place(cuda=cuda)) != BLOCK:
        assert verdict(Workload(runtime=runtime), Place(cuda=newer)) != BLOCK


@given(runtime=cuda_versions, cuda=cuda_versions)
def test_every_finding_is_complete(runtime: tuple[int, int], cuda: tuple[int, int]) -> None:
    for finding in check(Workload(runtime=runtime, dtype="fp8"), Place(cuda=cuda, compute=(7, 5))):
        assert finding.what
        assert finding.why
        assert finding.fix
