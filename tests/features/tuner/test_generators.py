"""Which load generator measures, and why not another."""

from dataclasses import replace
from pathlib import Path

import pytest

from corral.core.model.errors import Refused
from corral.features.tuner.measuring import generators
from corral.features.tuner.measuring.generators import choose_generator, with_tokenizer
from corral.features.tuner.measuring.traffic_kinds import why_no_scenario
from corral.features.tuner.model.tuning_spec import BenchmarkSpec

SPEC = BenchmarkSpec(model_tokenizer="/t")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generators, "installed_program", lambda: Path("/bin/true"))


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generators, "installed_program", lambda: None)


@pytest.mark.usefixtures("installed")
def test_genai_bench_measures_where_it_can() -> None:
    chosen = choose_generator(SPEC)
    assert (chosen.generator.name, chosen.note) == ("genai-bench", None)
    assert choose_generator(replace(SPEC, generator="corral")).generator.name == "corral"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (BenchmarkSpec(), "it needs a tokenizer"),
        (replace(SPEC, traffic_scenarios=("N(48.5,2)/(3,1)",)), "whole numbers"),
        (replace(SPEC, dataset_deduplicate=True), "dataset_deduplicate"),
        (replace(SPEC, dataset_url="https://example.org/prompts.csv"), "dataset_url must be"),
    ],
)
def test_the_built_in_one_stands_in_and_says_why(spec: BenchmarkSpec, why: str) -> None:
    chosen = choose_generator(spec)
    assert chosen.generator.name == "corral"
    assert why in (chosen.note or "")


@pytest.mark.usefixtures("missing")
def test_without_genai_bench_what_only_it_can_measure_is_refused_with_both_reasons() -> None:
    assert "not installed: type `make genai-bench`" in (choose_generator(SPEC).note or "")
    with pytest.raises(Refused, match=r"genai-bench: it is not installed.*; corral: it measures text-to-text alone"):
        choose_generator(replace(SPEC, task="text-to-embeddings", traffic_scenarios=("E(64)",)))
    with pytest.raises(Refused, match="not installed"):
        choose_generator(replace(SPEC, generator="genai-bench"))


def test_an_unknown_generator_is_refused_with_the_nearest() -> None:
    with pytest.raises(Refused, match="did you mean 'genai-bench'"):
        choose_generator(replace(SPEC, generator="genai_bench"))


def test_the_tokenizer_is_the_models_own_where_its_directory_is_here(tmp_path: Path) -> None:
    assert with_tokenizer(BenchmarkSpec(), str(tmp_path)).model_tokenizer == str(tmp_path)
    assert with_tokenizer(BenchmarkSpec(), "some/model").model_tokenizer == ""
    assert with_tokenizer(SPEC, str(tmp_path)).model_tokenizer == "/t"


@pytest.mark.parametrize(
    ("task", "scenario"),
    [
        ("text-to-text", "D( 100, 20 )"),
        ("text-to-text", "N(480,240)/(300,150)"),
        ("text-to-text", "U(50,100)/(200,250)"),
        ("text-to-text", "U(100,200)"),
        ("text-to-text", "dataset"),
        ("text-to-embeddings", "E(1024)"),
        ("text-to-rerank", "R(1024,128)"),
        ("image-text-to-text", "I(256,256,2)"),
        ("text-to-image", "I(256,256)"),
        ("text-to-speech", "A(500)"),
    ],
)
def test_each_kind_of_traffic_is_for_some_tasks(task: str, scenario: str) -> None:
    assert why_no_scenario(task, scenario) is None
    other = "text-to-rerank" if task != "text-to-rerank" else "text-to-text"
    assert scenario == "dataset" or why_no_scenario(other, scenario) is not None


@pytest.mark.parametrize("scenario", ["D(100)", "D(1.5,2)", "E(4)x", "V(1,2)", "", "D(100000000,1)", "--help"])
def test_other_words_are_no_traffic(scenario: str) -> None:
    assert why_no_scenario("text-to-text", scenario) is not None


def test_a_task_that_nobody_knows_is_told_with_those_that_there_are() -> None:
    assert "text-to-rerank" in (why_no_scenario("text-to-music", "D(1,1)") or "")
