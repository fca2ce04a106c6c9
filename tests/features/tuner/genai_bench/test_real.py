"""The real genai-bench against a real server. Skipped where it is not installed: `make test-genai-bench`."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.client import Client
from corral.core.model.errors import Refused
from corral.features.tuner.measuring.benchmark import run_benchmark_job
from corral.features.tuner.measuring.genai_bench import PROGRAM
from corral.features.tuner.measuring.level_figures import GeneratorFailed
from tests.e2e.box import CORRAL, Box, described, serving
from tests.features.tuner.serving import stand_in

RUN_S = 300.0


@pytest.fixture
def spec(program: Path, tokenizer: Path) -> dict[str, Any]:
    return {
        "model_name": "m",
        "model_tokenizer": str(tokenizer),
        "traffic_scenarios": ["D(50,20)"],
        "num_concurrency": [4],
        "max_requests_per_iteration": 20,
        "max_time_per_iteration": 1,
    }


def test_chat_is_streamed_and_every_level_measured(spec: dict[str, Any]) -> None:
    traffic = {"traffic_scenarios": ["D(50,20)", "U(20,40)/(10, 20)"], "num_concurrency": [1, 4]}
    with stand_in("--max-num-seqs", "16") as url:
        metrics = run_benchmark_job(f"{url}/v1", {**spec, **traffic}, [0, 1])
    assert metrics["generator"] == "genai-bench"
    assert "generator_note" not in metrics
    assert [(level["scenario"], level["num_concurrency"]) for level in metrics["raw_results"]] == [
        *(("D(50,20)", 1), ("D(50,20)", 4)),
        *(("U(20,40)/(10, 20)", 1), ("U(20,40)/(10, 20)", 4)),
    ]
    first = metrics["raw_results"][0]
    # A step of the server takes 8 ms, and an answer has 20 of them.
    assert first["mean_tpot"] >= 0.008
    assert first["stats"]["num_output_tokens"]["mean"] == 20
    assert metrics["total_error_requests"] == 0
    assert metrics["mean_output_throughput_per_gpu"] == pytest.approx(metrics["mean_output_throughput"] / 2)


def test_embeddings_have_no_time_per_token(spec: dict[str, Any]) -> None:
    traffic = {"task": "text-to-embeddings", "traffic_scenarios": ["E(40)"]}
    with stand_in() as url:
        (level,) = run_benchmark_job(url, {**spec, **traffic})["raw_results"]
    assert (level["batch_size"], level["num_error_requests"], "mean_tpot" in level) == (4, 0, False)
    # Four texts of 40 tokens, some of which are marks that stand at a word.
    assert 80 < level["stats"]["num_input_tokens"]["mean"] <= 160
    assert level["mean_e2e_latency"] > 0.008


def test_requests_that_fail_are_counted_and_a_server_without_a_good_answer_is_told(spec: dict[str, Any]) -> None:
    with stand_in("--fail-every", "3") as url:
        (level,) = run_benchmark_job(url, spec)["raw_results"]
    assert level["error_codes_frequency"]["500"] == level["num_error_requests"] > 0
    with stand_in("--fail-every", "1") as url, pytest.raises(Refused, match=r"500: .*this request was to fail"):
        run_benchmark_job(url, spec)


def test_a_tokenizer_that_is_none_is_told_in_its_own_words(spec: dict[str, Any], tmp_path: Path) -> None:
    with stand_in() as url, pytest.raises(GeneratorFailed, match="ended with 1 and no result; its last lines:\n"):
        run_benchmark_job(url, {**spec, "model_tokenizer": str(tmp_path)})


def test_the_command_measures_with_it(spec: dict[str, Any], program: Path) -> None:
    with stand_in() as url:
        words = ["--model", "m", "--tokenizer", spec["model_tokenizer"], "-c", "2", "--requests", "4", "--json"]
        told = subprocess.run([CORRAL, "bench", url, *words], capture_output=True, text=True, timeout=RUN_S)
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["generator"] == "genai-bench"


@pytest.mark.usefixtures("program")
def test_it_and_the_built_in_one_are_never_far_apart(spec: dict[str, Any]) -> None:
    with stand_in("--max-num-seqs", "16") as url:
        there, here = (
            run_benchmark_job(url, {**spec, "generator": name, "num_concurrency": [1, 8]})
            for name in ("genai-bench", "corral")
        )
    for name in ("mean_tpot", "mean_e2e_latency", "mean_output_throughput"):
        # Both share their CPUs with the server: docs/autotuner.md has figures.
        assert 0.5 < there[name] / here[name] < 2, name


@pytest.fixture
def measured_box(program: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    """A server whose tuners are told by a variable where genai-bench is."""
    monkeypatch.setenv(PROGRAM, str(program))
    with serving(described(2)) as box:
        yield box


def test_a_task_goes_from_its_file_to_the_winner(measured_box: Box, spec: dict[str, Any], tokenizer: Path) -> None:
    task = {
        "task_name": "measured",
        "model": {"id_or_path": str(tokenizer)},
        "base_runtime": "stand-in",
        "parameters": {"max-num-seqs": [1, 8]},
        "optimization": {"objective": "maximize_throughput", "timeout_per_iteration": 300},
        # The tokenizer is the one in the model's directory. So many requests take seconds also at eight a time.
        "benchmark": {
            **spec,
            "model_name": "",
            "model_tokenizer": "",
            "num_concurrency": [8],
            "max_requests_per_iteration": 80,
        },
    }
    file = measured_box.home / "task.json"
    file.write_text(json.dumps(task))
    told = measured_box.ok("tune", str(file), "--follow")
    # The best is measured again.
    assert re.search(r"([34]) experiments, \1 succeeded", told)
    assert "--max-num-seqs 8" in told.splitlines()[-1]
    with Client(measured_box.home) as client:
        (row,) = client.tasks.list()
        experiments = client.experiments.list(row.id, metrics=True)
        best = client.experiments.get(row.best_experiment_id or "")
    assert best.parameters == {"max-num-seqs": 8}
    for experiment in experiments:
        metrics = experiment.metrics or {}
        assert (metrics["generator"], metrics["total_error_requests"]) == ("genai-bench", 0)
        # Mock GPUs tell their power; where a window has a whole second of it, a token has its energy.
        assert metrics["energy_per_output_token_j"] > 0
        assert metrics["gpu_monitoring"]["sample_count"] >= 1
