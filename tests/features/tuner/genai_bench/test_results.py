"""Results that genai-bench wrote, and files in their place."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from corral.features.tuner.measuring.genai_bench_results import (
    MOST_BYTES,
    BrokenResult,
    figures_of,
    first_failure,
    is_whole,
    result_file,
    unanswered,
)
from corral.features.tuner.measuring.level_figures import AppliedLoad, combined
from tests.features.tuner.genai_bench.record import RECORDED, RESULTS


def load(scenario: str = "D(100,60)", concurrency: int = 1) -> AppliedLoad:
    return AppliedLoad(scenario, concurrency, 2, 60.0)


@pytest.mark.parametrize("name", RECORDED)
def test_every_kind_of_scenario_is_read(name: str) -> None:
    task, scenario = RECORDED[name]
    raw = json.loads((RESULTS / f"{name}.json").read_text())["aggregated_metrics"]
    level = figures_of(RESULTS / f"{name}.json", load(scenario), task=task)
    assert (raw["scenario"], raw["num_completed_requests"]) == (scenario, level["num_completed_requests"])
    latency = raw["stats"]["e2e_latency"]
    assert level["stats"]["e2e_latency"] == latency
    assert (level["mean_ttft"], level["p99_e2e_latency"]) == (raw["stats"]["ttft"]["mean"], latency["p99"])
    assert level["mean_total_throughput"] == raw["mean_total_tokens_throughput_tokens_per_s"]
    assert level["run_duration"] == raw["run_duration"] > 1


@pytest.mark.parametrize("name", RECORDED)
def test_what_gives_no_text_has_no_time_per_token(name: str) -> None:
    task, scenario = RECORDED[name]
    level = figures_of(RESULTS / f"{name}.json", load(scenario), task=task)
    text_out = task == "text-to-text"
    assert ("mean_tpot" in level, "mean_output_throughput" in level) == (text_out, text_out)
    assert (level["stats"]["tpot"] is not None) == text_out
    assert ("batch_size" in level) == (name in ("embeddings", "rerank"))


def test_levels_make_the_metrics_of_an_experiment() -> None:
    one = figures_of(RESULTS / "deterministic.json", load(), task="text-to-text") | {"generator": "genai-bench"}
    two = figures_of(RESULTS / "normal.json", load("N(60,10)/(60,5)", 2), task="text-to-text")
    metrics = combined([one, two | {"generator": "genai-bench"}])
    assert (metrics["generator"], metrics["concurrency_levels"]) == ("genai-bench", [1, 2])
    assert metrics["mean_tpot"] == (one["mean_tpot"] + two["mean_tpot"]) / 2
    assert metrics["max_output_throughput"] == max(one["mean_output_throughput"], two["mean_output_throughput"])
    assert metrics["success_rate"] == 1.0


def test_requests_that_failed_are_counted_by_code_and_the_first_is_told() -> None:
    path = RESULTS / "partly_failed.json"
    level = figures_of(path, load(), task="text-to-text")
    assert level["num_error_requests"] == level["error_codes_frequency"]["500"] > 0
    assert level["num_requests"] == level["num_completed_requests"] + level["num_error_requests"]
    assert "500: " in (first_failure(path) or "")
    assert first_failure(RESULTS / "deterministic.json") is None


def test_a_run_without_a_good_answer_is_no_broken_one(tmp_path: Path) -> None:
    (tmp_path / "debug_for_run_D20_5_1.json").write_bytes((RESULTS / "all_failed.json").read_bytes())
    figures, failure = unanswered(tmp_path, load(), 2.0)
    assert (figures["num_completed_requests"], figures["error_codes_frequency"]) == (0, {"500": 4})
    assert failure is not None
    assert "this request was to fail" in failure
    assert combined([figures])["success_rate"] == 0.0


def test_all_names_of_results_are_found(tmp_path: Path) -> None:
    for name in ("N480_240_300_150_text-to-text_num_concurrency_4_time_3s.json", "experiment_metadata.json"):
        (tmp_path / name).write_text("{")
    found = result_file(tmp_path)
    assert found is not None
    assert found.name.startswith("N480")
    assert not is_whole(found)
    found.write_text('{\n    "a": {\n    }')
    assert not is_whole(found)
    found.write_text('{\n    "a": {\n    }\n}')
    assert is_whole(found)


def changed(**fields: Any) -> str:
    raw = json.loads((RESULTS / "deterministic.json").read_text())
    raw["aggregated_metrics"] |= fields
    return json.dumps(raw)


STATS = json.loads((RESULTS / "deterministic.json").read_text())["aggregated_metrics"]["stats"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is no JSON"),
        ('{"aggregated_metrics": {"scenario": "D(1', "is no JSON"),
        ("[" * 200_000, "is no JSON"),
        ('{"aggregated_metrics": ' + "9" * 10_000 + "}", "is no JSON"),
        ("[]", "is no object"),
        ("{}", "aggregated_metrics is no object"),
        ('{"aggregated_metrics": {}}', "has no run_duration, num_requests"),
        (changed(run_duration=-1), "run_duration is -1"),
        (changed(run_duration=float("inf")), "run_duration is inf"),
        (changed(num_requests="many"), "num_requests is 'many'"),
        (changed(num_requests=True), "num_requests is True"),
        (changed(run_duration=float("nan")), "has no run_duration"),
        (changed(stats=[]), "stats is no object"),
        (changed(stats={"ttft": 3}), "ttft is no object"),
        (changed(stats={"ttft": {"mean": {}}}), "ttft.mean is {}"),
        (changed(error_codes_frequency={"500": "x"}), "error_codes_frequency"),
    ],
)
def test_a_file_that_makes_no_sense_is_told_and_not_used(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "D1_time_1s.json"
    path.write_text(text)
    with pytest.raises(BrokenResult, match=why):
        figures_of(path, load(), task="text-to-text")


@pytest.mark.parametrize("empty", [None, dict.fromkeys(STATS["tpot"]), STATS["tpot"] | {"mean": float("nan")}])
def test_a_series_that_was_not_measured_is_left_out(tmp_path: Path, empty: Any) -> None:
    path = tmp_path / "D1_time_1s.json"
    path.write_text(changed(stats=STATS | {"tpot": empty}))
    level = figures_of(path, load(), task="text-to-text")
    assert level["stats"]["tpot"] is None
    assert "mean_tpot" not in level
    assert "mean_ttft" in level


def test_files_that_are_none_or_too_large_are_not_read(tmp_path: Path) -> None:
    pipe, large = tmp_path / "pipe", tmp_path / "large"
    os.mkfifo(pipe)
    with large.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    for path, why in ((pipe, "is no file"), (large, "64 MiB, and 64 are read"), (tmp_path / "none", "cannot be read")):
        with pytest.raises(BrokenResult, match=why):
            figures_of(path, load(), task="text-to-text")
