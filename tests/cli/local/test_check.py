"""`corral check` and `corral estimate` as their user meets them, with a server and without one."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.cli.local.check import result_lines
from corral.core.ports.preflight import Effect, Finding, Place

CORRAL = [sys.executable, "-c", "import sys; from corral.cli import main; sys.exit(main())"]
MOCK_DEVICE = """  { mother_uuid = "%s", model_name = "%s", memory_size = "%s", """
MOCK_DEVICE += """numa_node = 0, subproc_count = 108, is_mig_device = false },\n"""
MOCK = f"""
slot_name = "cuda"
device_plugin_name = "CUDADevice"
devices = [
{MOCK_DEVICE % ("GPU-a", "NVIDIA A100-SXM4-80GB", "80G")}{MOCK_DEVICE % ("GPU-b", "Tesla T4", "15G")}]
[attributes]
nvidia_driver = "550.54.14"
cuda_runtime = "12.4"
"""
CONFIG = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "max_position_embeddings": 8192,
}  # fmt: skip


def corral(home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    foreign = {name: value for name, value in os.environ.items() if not name.startswith("CORRAL_")}
    env = {
        **foreign,
        "CORRAL_HOME": str(home),
        "COLUMNS": "80",
        "NO_COLOR": "1",
        "PATH": f"{home}/tools:{os.environ['PATH']}",
    }
    return subprocess.run([*CORRAL, *words], capture_output=True, text=True, env=env, cwd=home, timeout=90)


def with_model(home: Path) -> Path:
    (home / "model").mkdir()
    (home / "model" / "config.json").write_text(json.dumps(CONFIG))
    (home / "tools").mkdir(exist_ok=True)
    (home / "tools" / "vllm").write_text("#!/bin/sh\n")
    (home / "tools" / "vllm").chmod(0o755)
    return home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return with_model(tmp_path)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home whose server knows two kinds of devices; these tests only ask it."""
    home = with_model(tmp_path_factory.mktemp("served"))
    (home / "mock.toml").write_text(MOCK)
    up = corral(home, "up", "--detach", "--mock", str(home / "mock.toml"))
    assert up.returncode == 0, up.stderr
    yield home
    corral(home, "down")


def test_a_combination_that_cannot_run_exits_with_1_and_says_the_fix(home: Path) -> None:
    told = corral(home, "check", "--dtype", "bf16", "--gpu-model", "Tesla V100", "--driver", "550.54.14")
    assert told.returncode == 1
    assert "block  the program asks for bfloat16" in told.stdout
    assert "-> --dtype=half" in told.stdout
    assert max(map(len, told.stdout.splitlines())) <= 80


def test_a_combination_that_runs_exits_with_0(home: Path) -> None:
    told = corral(home, "check", "--cuda", "12.1", "--gpu-model", "NVIDIA A100", "--driver", "550.54.14")
    assert (told.returncode, told.stdout) == (0, "ok     NVIDIA A100: no problem found\n")


def test_a_program_that_is_not_there_exits_with_1_and_says_where_it_was_looked_for(home: Path) -> None:
    told = corral(home, "check", "--gpu-model", "NVIDIA A100", "--driver", "550.54.14", "--", "no-such-program")
    assert told.returncode == 1
    assert "command not found: no-such-program; looked in PATH=" in told.stderr


def test_without_a_server_it_says_what_it_does_not_know(home: Path) -> None:
    told = corral(home, "check", "vllm", "serve", "model", "-tp", "2")
    assert told.returncode == 0
    assert "no server answers" in told.stderr
    assert told.stdout == "unknown  the device is unknown, so nothing could be checked\n"
    assert "found memory: " in told.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["check", "--dtype", "bf17"], "did you mean 'bf16'?"),
        (["check", "--cuda", "new"], "--cuda: 'new' is not a version"),
        (["check", "--gpus", "0.005"], "shares are multiples of 0.01 GPU"),
        (["check", "--gpu-mem", "20"], "write a number and a unit"),
        (["check", "--share", "mpss"], "did you mean 'mps'?"),
        (["estimate", "m-7b", "--context", "long"], "8192 or 32k"),
        (["estimate", "."], "no config.json"),
    ],
)
def test_bad_input_exits_with_2_and_says_what_would_do(home: Path, words: list[str], message: str) -> None:
    told = corral(home, *words)
    assert told.returncode == 2
    assert message in " ".join(told.stderr.split())


def test_each_kind_of_device_here_is_checked_and_one_that_works_is_enough(served: Path) -> None:
    told = corral(served, "check", "--json", "--", "vllm", "serve", "model")
    assert told.returncode == 0
    places = {place["model"]: place["findings"] for place in json.loads(told.stdout)["places"]}
    assert places["NVIDIA A100-SXM4-80GB"] == []
    assert [finding["rule"] for finding in places["Tesla T4"]][:1] == ["precision"]


def test_a_share_is_checked_with_its_part_of_the_memory(served: Path) -> None:
    told = corral(served, "check", "--gpus", "0.1", "--gpu-model", "Tesla T4", "--", "vllm", "serve", "model")
    assert told.returncode == 1
    told = corral(served, "check", "--gpus", "0.5", "--json", "--", "vllm", "serve", "model")
    places = {place["model"]: place["findings"] for place in json.loads(told.stdout)["places"]}
    (finding,) = places["NVIDIA A100-SXM4-80GB"]
    assert finding["fix"] == "--gpu-memory-utilization 0.50"


def test_an_estimate_says_its_parts_who_would_hold_it_and_where_it_is_from(served: Path) -> None:
    told = corral(served, "estimate", "model", "--context", "8k", "--batch", "4")
    assert told.returncode == 0
    assert "      4G  key-value cache of 4 sequences of 8192 tokens" in told.stdout
    assert "GPUs here with enough memory: 0 (NVIDIA A100-SXM4-80GB)" in told.stdout
    assert told.stdout.endswith("config.json\n")
    plain = json.loads(corral(served, "estimate", "model", "--json").stdout)
    assert plain["holding"] == ["GPU-a"]
    assert plain["total_mib"] > plain["weights_mib"] > 15000


def test_the_size_that_would_fit_is_found_and_what_cannot_is_said(served: Path) -> None:
    assert "try --tp 16" in corral(served, "estimate", "org/Some-405B").stdout
    assert "even --tp 64 is not enough" in corral(served, "estimate", "org/Some-90000B").stdout
    assert "cannot be split over --tp 3 evenly" in corral(served, "estimate", "model", "--tp", "3").stdout


def test_a_path_that_leads_nowhere_is_no_small_model(home: Path) -> None:
    told = corral(home, "estimate", "/nowhere/model")
    assert (told.returncode, "/nowhere/model is not here" in told.stderr) == (2, True)
    assert corral(home, "estimate", "/nowhere/model-7b").returncode == 0


def test_kinds_of_which_the_same_is_said_share_its_lines(served: Path) -> None:
    told = corral(served, "check", "--cuda", "13.0", "--", "python", "train.py")
    assert told.stdout.count("the program brings CUDA 13.0") == 1
    assert told.stdout.startswith("NVIDIA A100-SXM4-80GB, Tesla T4\n")


def test_a_slice_that_nobody_offers_is_refused(served: Path) -> None:
    told = corral(served, "check", "--mig", "1g.10gb", "--", "python", "train.py")
    assert (told.returncode, "no GPU here has a 1g.10gb slice" in told.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "rule"),
    [(["--share", "mps", "--", "true"], "mps"), (["--", "torchrun", "--nproc-per-node", "2", "train.py"], "mig")],
)
def test_the_rules_for_slices_hold_of_a_device_that_is_only_named(home: Path, words: list[str], rule: str) -> None:
    told = corral(home, "check", "--gpu-model", "A100", "--mig", "1g.10gb", "--json", *words)
    (place,) = json.loads(told.stdout)["places"]
    assert (told.returncode, rule in [finding["rule"] for finding in place["findings"]]) == (1, True)


def test_a_line_is_never_broken_within_a_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for length in range(40, 70):
        finding = Finding(Effect.BLOCK, "memory-fit", "what", "why", f"{'x' * length} --min-memory 16G")
        lines = result_lines([(Place(device_memory_mib=1), (finding,))])
        assert any("--min-memory" in line for line in lines)
        assert max(map(len, lines)) <= 80


def test_a_layer_of_virtual_gpus_is_checked_where_it_is_named(home: Path) -> None:
    words = ["check", "--gpus", "0.5", "--driver", "550.54.14", "--gpu-model", "NVIDIA A100", "--cuda", "12.4"]
    assert corral(home, *words).returncode == 0
    told = corral(home, *words, "--vgpu-cuda", "12.3")
    assert (told.returncode, "12.3" in told.stdout) == (1, True)


def test_an_estimate_of_a_name_says_so(home: Path) -> None:
    told = corral(home, "estimate", "org/Some-70B", "--tp", "4")
    assert "on each of 4 GPUs" in told.stdout
    assert "70 billion parameters in the name" in told.stdout


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["check", "--driver", "latest"], "--driver: 'latest' is not a version"),
        (["estimate", "Llama-3-70B", "--kv-dtype", "fp7"], "--kv-dtype: 'fp7' is not a known precision"),
    ],
)
def test_a_bad_word_is_refused_under_the_flag_it_was_given_for(home: Path, words: list[str], complaint: str) -> None:
    result = corral(home, *words)
    assert result.returncode == 2
    assert complaint in result.stderr


def test_every_line_of_an_estimate_fits_eighty_columns(home: Path) -> None:
    shown = corral(home, "estimate", "Llama-3-70B", "--tp", "4").stdout
    assert max(map(len, shown.splitlines())) <= 80
