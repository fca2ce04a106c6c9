"""Records the results of the real genai-bench for every kind of scenario.

Run it with `python -m tests.features.tuner.genai_bench.record`.
"""

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from corral.features.tuner.measuring.genai_bench import GenaiBench, installed_program
from corral.features.tuner.measuring.level_figures import AppliedLoad
from corral.features.tuner.model.tuning_spec import BenchmarkSpec
from tests.features.tuner.genai_bench.tokenizer import write_tokenizer
from tests.features.tuner.serving import stand_in

RESULTS = Path(__file__).with_name("results")
RECORDED = {
    "deterministic": ("text-to-text", "D(100,60)"),
    "normal": ("text-to-text", "N(60,10)/(60,5)"),
    "uniform": ("text-to-text", "U(40,80)/(50,60)"),
    "dataset": ("text-to-text", "dataset"),
    "embeddings": ("text-to-embeddings", "E(64)"),
    "rerank": ("text-to-rerank", "R(32,8)"),
    "image": ("text-to-image", "I(64,64)"),
    "audio": ("text-to-speech", "A(40)"),
}
_KEPT = 4
_OF_STAND_IN = ("text-to-text", "text-to-embeddings")
_ANSWERS = {
    "/v1/rerank": {"results": [], "usage": {"prompt_tokens": 40, "total_tokens": 40}},
    "/v1/images/generations": {"data": [{"url": "http://127.0.0.1/a.png"}]},
    "/v1/audio/speech": {"sound": "." * 4096},
}


class _Other(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        threading.Event().wait(0.3)
        answer = json.dumps(_ANSWERS[self.path]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def _others() -> Iterator[str]:
    """A server of what the stand-in has not."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def record(name: str, task: str, scenario: str, url: str, tokenizer: Path) -> None:
    """Write the result of one run, with its first requests alone."""
    program = installed_program()
    assert program is not None
    with tempfile.TemporaryDirectory() as directory:
        spec = BenchmarkSpec(task=task, model_name="m", model_tokenizer=str(tokenizer))
        load = AppliedLoad(scenario, 1, 2, 60.0)
        arguments = GenaiBench(program).arguments(url, spec, load, Path(directory))
        env = {**os.environ, "ENABLE_UI": "false", "HF_HUB_OFFLINE": "1"}
        subprocess.run([program, *arguments], env=env, cwd=directory, timeout=300, capture_output=True)
        for pattern in ("*_time_*s.json", "debug_for_run_*.json"):
            for path in Path(directory, "run").glob(pattern):
                result = json.loads(path.read_bytes())
                result["individual_request_metrics"] = result["individual_request_metrics"][:_KEPT]
                (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
                print(name, path.name)


def main() -> None:
    """Record all of them."""
    with tempfile.TemporaryDirectory() as place, stand_in() as url, _others() as other:
        tokenizer = write_tokenizer(Path(place))
        for name, (task, scenario) in RECORDED.items():
            record(name, task, scenario, url if task in _OF_STAND_IN else other, tokenizer)
        with stand_in("--fail-every", "2") as failing:
            record("partly_failed", "text-to-text", "D(20,40)", failing, tokenizer)
        with stand_in("--fail-every", "1") as failing:
            record("all_failed", "text-to-text", "D(20,5)", failing, tokenizer)


if __name__ == "__main__":
    main()
