"""Measuring a real server whose pace is known."""

import socket
import threading
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from corral.core.model.errors import Refused
from corral.features.tuner.measuring.benchmark import run_benchmark_job
from corral.features.tuner.measuring.built_in_generator import BuiltInGenerator
from corral.features.tuner.measuring.chat_stream import TimedAnswer
from corral.features.tuner.measuring.level_figures import AppliedLoad
from corral.features.tuner.model.tuning_spec import BenchmarkSpec
from tests.features.tuner.serving import stand_in

SPEC = {
    "model_name": "m",
    "traffic_scenarios": ["D(40,8)"],
    "num_concurrency": [1, 6],
    "max_requests_per_iteration": 6,
    "max_time_per_iteration": 0.5,
}


def test_every_figure_is_of_what_was_answered_and_names_the_generator() -> None:
    with stand_in("--max-num-seqs", "2", "--tensor-parallel-size", "2") as url:
        metrics = run_benchmark_job(f"{url}/v1", SPEC, [0, 1])
    alone, together = metrics["raw_results"]
    assert metrics["generator"] == "corral"
    assert (metrics["concurrency_levels"], metrics["total_requests"], metrics["success_rate"]) == ([1, 6], 12, 1.0)
    assert (alone["stats"]["num_input_tokens"]["mean"], alone["stats"]["num_output_tokens"]["sum"]) == (40, 48)
    # A step takes 4 ms for the weights and 0.8 ms for communication; of six at a time four wait for a place.
    assert alone["mean_tpot"] >= 0.0048
    assert alone["mean_e2e_latency"] >= 8 * 0.0048
    assert together["mean_ttft"] > alone["mean_ttft"]
    rate = sum(level["mean_output_throughput"] for level in (alone, together)) / 2
    assert metrics["mean_output_throughput"] == pytest.approx(rate)
    assert metrics["mean_output_throughput_per_gpu"] == pytest.approx(rate / 2)
    ordered = [metrics[f"{name}_e2e_latency"] for name in ("min", "p50", "p90", "p99", "max")]
    assert ordered[0] <= ordered[1] <= ordered[2] <= ordered[3]
    assert metrics["elapsed_time"] == pytest.approx(alone["run_duration"] + together["run_duration"])


def test_requests_that_fail_are_counted_and_not_measured() -> None:
    with stand_in("--fail-every", "3") as url:
        (level,) = run_benchmark_job(url, {**SPEC, "num_concurrency": [1]})["raw_results"]
    assert (level["num_completed_requests"], level["error_codes_frequency"]) == (4, {"500": 2})
    assert level["stats"]["e2e_latency"]["max"] < 5


def test_a_server_that_is_not_there_is_refused_with_what_was_heard() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(Refused, match="connection: ConnectionRefusedError"):
            run_benchmark_job(f"http://127.0.0.1:{taken.getsockname()[1]}", {**SPEC, "num_concurrency": [1]})


def is_past(time_s: float) -> bool:
    return time.monotonic() > time_s


def test_a_level_ends_when_its_time_is_over_or_somebody_says_so() -> None:
    spec = BenchmarkSpec(model_name="m")
    with stand_in() as url:
        slow = AppliedLoad("D(10,100000)", 1, 5, 0.3)
        result = BuiltInGenerator().measure(url, spec, slow)
        assert (result.answered, result.stopped, result.duration_s < 30) == (0, False, True)
        endless = AppliedLoad("D(10,4)", 2, 10**6, 3600.0)
        # However slow the machine is, some answers come within one of these times.
        for given_s in (0.5, 5.0, 60.0):
            stopped = BuiltInGenerator().measure(url, spec, endless, stop=partial(is_past, time.monotonic() + given_s))
            if stopped.answered:
                break
    assert stopped.stopped
    assert stopped.answered


@pytest.mark.parametrize("spec", [{"num_concurency": [1]}, {"traffic_scenarios": ["E(4)"]}])
def test_a_benchmark_that_makes_no_sense_is_refused(spec: dict[str, object]) -> None:
    with pytest.raises(Refused, match="benchmark"):
        run_benchmark_job("http://127.0.0.1:1", spec)


def test_an_answer_of_one_token_has_no_time_per_token() -> None:
    assert TimedAnswer(0.5, 0.5, 3, 1).tpot_s is None
    assert TimedAnswer(0.5, 1.5, 3, 3).tpot_s == 0.5


class _WantsKey(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_error(401, explain=f"not {self.headers['Authorization']}")

    def log_message(self, *args: object) -> None:
        pass


def test_the_key_is_the_one_of_the_variables_that_it_was_given() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _WantsKey) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        generator = BuiltInGenerator({"OPENAI_API_KEY": "sesame"})
        url = f"http://127.0.0.1:{server.server_port}"
        level = generator.measure(url, BenchmarkSpec(model_name="m"), AppliedLoad("D(1,1)", 1, 1, 60.0))
        server.shutdown()
    assert "not Bearer sesame" in (level.first_failure or "")
