"""How genai-bench is run, and what happens where it misbehaves. Scripts stand in for faults of the program."""

import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.features.tuner.measuring import genai_bench
from corral.features.tuner.measuring.genai_bench import GenaiBench, minutes_of
from corral.features.tuner.measuring.level_figures import AppliedLoad, GeneratorFailed
from corral.features.tuner.model.tuning_spec import BenchmarkSpec
from tests.features.tuner.genai_bench.record import RESULTS

SPEC = BenchmarkSpec(model_name="m", model_tokenizer="tokenizer")
LOAD = AppliedLoad("D(100, 60)", 4, 20, 90.0)
URL = "http://127.0.0.1:1"

Faulty = Callable[[str], Path]


def test_a_command_line_has_every_option_of_a_benchmark() -> None:
    spec = BenchmarkSpec(
        model_name="m", model_tokenizer="/t", additional_params={"temperature": 0.5}, dataset_url="/prompts.txt"
    )
    words = GenaiBench(None, engine="vllm", env={"OPENAI_API_KEY": "secret"}).arguments(URL, spec, LOAD, Path("/d"))
    assert words[0] == "benchmark"
    assert set(words[1:]) == {
        *("--api-backend=vllm", f"--api-base={URL}", "--api-key=none", "--api-model-name=m", "--model-tokenizer=/t"),
        *("--task=text-to-text", "--traffic-scenario=D(100,60)", "--num-concurrency=4", "--max-time-per-run=2"),
        *("--max-requests-per-run=20", '--additional-request-params={"temperature": 0.5}', "--experiment-base-dir=/d"),
        *("--experiment-folder-name=run", "--log-dir=/d", "--dataset-path=/prompts.txt", "--server-engine=vLLM"),
    }


def test_an_unknown_server_is_sent_nothing_that_openai_does_not_know_unless_its_user_does() -> None:
    def backend(spec: BenchmarkSpec) -> str:
        return GenaiBench(None, env={}).arguments(URL, spec, LOAD, Path("/d"))[1]

    assert backend(SPEC) == "--api-backend=openai"
    assert backend(BenchmarkSpec(additional_params={"ignore_eos": True})) == "--api-backend=vllm"


def test_texts_of_a_request_are_the_level_of_embeddings() -> None:
    words = GenaiBench(None, env={}).arguments(URL, BenchmarkSpec(task="text-to-embeddings"), LOAD, Path("/d"))
    assert "--batch-size=4" in words
    assert not any(word.startswith("--num-concurrency") for word in words)


@pytest.mark.parametrize(("seconds", "minutes"), [(0.5, 1), (60, 1), (61, 2), (600, 10)])
def test_its_minutes_are_whole_and_rounded_up(seconds: float, minutes: int) -> None:
    assert minutes_of(AppliedLoad("D(1,1)", 1, 1, seconds)) == minutes


def test_a_run_ends_with_its_result_and_not_with_its_plots(faulty: Faulty) -> None:
    recorded = shlex.quote(str(RESULTS / "deterministic.json"))
    program = faulty(f"sleep 0.2; cp {recorded} $RUN/D100_60_text-to-text_num_concurrency_4_time_2s.json; sleep 600")
    began = time.time()
    level = GenaiBench(program, env={}).measure(URL, SPEC, LOAD)
    assert time.time() - began < 60
    assert (level.answered, level.stopped) == (level.figures["num_completed_requests"], False)
    # The window of the measurement ends with the run, and does not begin before the program did.
    assert began <= level.began_at < level.ended_at <= time.time()


def test_its_key_is_on_no_command_line_and_its_words_are_told_without_it(faulty: Faulty) -> None:
    program = faulty('echo "key $MODEL_API_KEY of $*"; exit 3')
    with pytest.raises(GeneratorFailed, match="ended with 3 and no result; its last lines:\nkey") as failed:
        GenaiBench(program, env={"OPENAI_API_KEY": "sesame"}).measure(URL, SPEC, LOAD)
    assert "sesame" not in str(failed.value)
    assert "--api-key=none" in str(failed.value)


def test_a_broken_result_is_told(faulty: Faulty) -> None:
    program = faulty("printf '{\"aggregated_metrics\": 3}' > $RUN/D1_time_2s.json")
    with pytest.raises(GeneratorFailed, match="wrote a broken result: D1_time_2s"):
        GenaiBench(program, env={}).measure(URL, SPEC, LOAD)


def test_half_a_result_is_waited_for_and_then_told(faulty: Faulty) -> None:
    program = faulty("printf '{\"aggregated_metrics\": {' > $RUN/D1_time_2s.json; sleep 0.3")
    with pytest.raises(GeneratorFailed, match="is no JSON"):
        GenaiBench(program, env={}).measure(URL, SPEC, LOAD)


def test_a_run_in_which_nothing_was_answered_is_a_measurement(faulty: Faulty) -> None:
    recorded = shlex.quote(str(RESULTS / "all_failed.json"))
    level = GenaiBench(faulty(f"cp {recorded} $RUN/debug_for_run_D20_5_1.json; exit 1"), env={}).measure(
        URL, SPEC, LOAD
    )
    assert (level.answered, level.figures["num_error_requests"]) == (0, 4)
    assert "500: " in (level.first_failure or "")


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def written(path: Path) -> int:
    while not (path.exists() and path.read_text().strip()):
        time.sleep(0.02)
    return int(path.read_text())


def until_gone(pid: int) -> bool:
    deadline = time.monotonic() + 60
    while not is_gone(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return is_gone(pid)


def test_who_stops_it_ends_all_that_it_started(faulty: Faulty, tmp_path: Path) -> None:
    child = tmp_path / "child"
    program = faulty(f"sleep 600 & echo $! > {child}; sleep 600")
    level = GenaiBench(program, env={}).measure(URL, SPEC, LOAD, stop=lambda: child.exists() and written(child) > 0)
    assert (level.stopped, level.answered) == (True, 0)
    assert until_gone(written(child))


def test_one_that_hangs_is_ended_in_time(faulty: Faulty, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    child = tmp_path / "child"
    monkeypatch.setattr(genai_bench, "START_S", -119.0)
    program = faulty(f"echo starting; sleep 600 & echo $! > {child}; wait")
    with pytest.raises(GeneratorFailed, match="did not end in time; its last lines:\n"):
        GenaiBench(program, env={}).measure(URL, SPEC, AppliedLoad("D(1,1)", 1, 1, 60.0))
    assert not child.exists() or until_gone(written(child))


def test_it_does_not_outlive_who_started_it(faulty: Faulty, tmp_path: Path) -> None:
    """As when a tuner is killed: the next one measures the same server."""
    own = tmp_path / "own"
    program = faulty(f"echo $$ > {own}; exec sleep 600")
    with subprocess.Popen([sys.executable, "-c", _MEASURES, str(program)]) as parent:
        started = written(own)
        assert not is_gone(started)
        parent.kill()
    assert until_gone(started)


_MEASURES = """
import sys
from pathlib import Path
from tests.features.tuner.genai_bench.test_program import LOAD, SPEC, URL, GenaiBench
GenaiBench(Path(sys.argv[1]), env={}).measure(URL, SPEC, LOAD)
"""
