"""genai-bench as a load generator: a process for each level of load, in an environment of its own.

A run is ended as soon as its result is written: the spreadsheets and plots that follow take 20 s.
"""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from corral.features.tuner.measuring.genai_bench_results import (
    BrokenResult,
    figures_of,
    first_failure,
    is_whole,
    result_file,
    unanswered,
)
from corral.features.tuner.measuring.level_figures import GENAI_BENCH, AppliedLoad, GeneratorFailed, MeasuredLevel
from corral.features.tuner.measuring.run_directory import private_directory
from corral.features.tuner.measuring.traffic_kinds import why_no_scenario, written_plainly
from corral.features.tuner.model.tuning_spec import BenchmarkSpec

PROGRAM = "CORRAL_GENAI_BENCH"
"""The variable with the path of the genai-bench program."""

START_S = 120.0
"""The longest time for imports, tokenizer and data set; with a cold disk they take most of a minute."""

_DRAIN_S = 60.0
_LOOK_S = 0.1
_MINUTE_S = 60.0
_LAST_BYTES = 8_000
_LAST_LINES = 3
_NO_KEY = "none"
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
_BATCHED = ("text-to-embeddings", "text-to-rerank")
"""Tasks whose levels are numbers of texts per request, with one request at a time."""

_BACKENDS = {"vllm": "vllm", "sglang": "sglang"}
_SERVER_ENGINES = {"vllm": "vLLM", "sglang": "SGLang"}


def installed_program() -> Path | None:
    """Return the path in `CORRAL_GENAI_BENCH`, otherwise the path of `make genai-bench`; None if nothing is
    installed there.
    """
    named = os.environ.get(PROGRAM)
    path = Path(named) if named else Path(sys.prefix, "genai-bench", "bin", "genai-bench")
    return path if os.access(path, os.X_OK) and path.is_file() else None


class GenaiBench:
    """Runs the installed genai-bench.

    `engine` is the inference server, "" if it is not known. `env` has variables for the hub of tokenizers, and the key
    of the server (OPENAI_API_KEY).
    """

    name = GENAI_BENCH

    def __init__(self, program: Path | None, *, engine: str = "", env: Mapping[str, str] | None = None) -> None:
        self._program = program
        self._engine = engine
        self._env = dict(os.environ if env is None else env)

    def why_not(self, spec: BenchmarkSpec) -> str | None:
        """Return why it cannot apply the traffic of a benchmark, None if no reason is known."""
        if self._program is None:
            return f"it is not installed: type `make genai-bench`, or say where it is in {PROGRAM}"
        if not spec.model_tokenizer:
            return "it needs a tokenizer: a directory, or a name at the hub, in model_tokenizer"
        for scenario in spec.traffic_scenarios:
            if (why := why_no_scenario(spec.task, scenario)) is not None:
                return why
        if spec.dataset_deduplicate:
            return "it does not leave out what a data set has twice (dataset_deduplicate)"
        if "://" in (spec.dataset_url or ""):
            return "dataset_url must be a file of lines, or the name of a data set at the hub"
        return None

    def measure(
        self,
        endpoint_url: str,
        spec: BenchmarkSpec,
        load: AppliedLoad,
        *,
        seed: int = 0,
        stop: Callable[[], bool] = lambda: False,
    ) -> MeasuredLevel:
        """Apply one level of load; it has no seed. Its time is rounded up to whole minutes.

        Raises GeneratorFailed if genai-bench does not run to its end, or writes an invalid result.
        """
        del seed
        with private_directory() as directory:
            return self._measured(directory, endpoint_url.rstrip("/").removesuffix("/v1"), spec, load, stop)

    def _measured(
        self, directory: Path, url: str, spec: BenchmarkSpec, load: AppliedLoad, stop: Callable[[], bool]
    ) -> MeasuredLevel:
        began_at = time.time()
        deadline = time.monotonic() + START_S + minutes_of(load) * _MINUTE_S + _DRAIN_S
        with (directory / "output").open("wb") as output:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-m", "corral.features.tuner.running.dies_with_parent", str(os.getpid())),
                    *(str(self._program), *self.arguments(url, spec, load, directory)),
                ],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env=self._environment(url, spec),
                start_new_session=True,
            )
            try:
                stopped = self._await(process, directory, deadline, stop)
            finally:
                _kill(process)
        if stopped:
            return MeasuredLevel(began_at, time.time(), {}, 0, stopped=True)
        return self._read(directory, spec, load, began_at, process.returncode)

    def _await(
        self, process: "subprocess.Popen[bytes]", directory: Path, deadline: float, stop: Callable[[], bool]
    ) -> bool:
        """Wait for a complete result, or the end of the process. Return whether it was stopped from outside."""
        if process.stdin is not None:
            # genai-bench asks whether `ignore_eos: false` is intended.
            with suppress(OSError):
                process.stdin.write(b"n\n")
                process.stdin.close()
        while not _has_ended(process):
            written = result_file(directory / "run")
            if written is not None and is_whole(written):
                return False
            if stop():
                return True
            if time.monotonic() > deadline:
                raise GeneratorFailed(
                    f"genai-bench did not end in time; its last lines:\n{self._last_lines(directory)}"
                )
            time.sleep(_LOOK_S)
        return False

    def _read(
        self, directory: Path, spec: BenchmarkSpec, load: AppliedLoad, began_at: float, code: int | None
    ) -> MeasuredLevel:
        written, now = result_file(directory / "run"), time.time()
        try:
            if written is None:
                figures, failure = unanswered(directory / "run", load, now - began_at)
                if code == 0 or failure is not None:
                    # It writes no result if no request ended, or none succeeded.
                    return MeasuredLevel(began_at, now, figures, 0, failure)
                last = self._last_lines(directory)
                raise GeneratorFailed(f"genai-bench ended with {code} and no result; its last lines:\n{last}")
            figures, failure = figures_of(written, load, task=spec.task), first_failure(written)
            ended_at = min(now, written.stat().st_mtime)
        except (BrokenResult, OSError) as error:
            raise GeneratorFailed(f"genai-bench wrote a broken result: {error}") from None
        # The process starts long before the first request.
        measured_from = max(began_at, ended_at - figures["run_duration"])
        return MeasuredLevel(measured_from, ended_at, figures, figures["num_completed_requests"], failure)

    def arguments(self, url: str, spec: BenchmarkSpec, load: AppliedLoad, directory: Path) -> tuple[str, ...]:
        """Return the command line of one level, without the program."""
        level = "--batch-size" if spec.task in _BATCHED else "--num-concurrency"
        arguments = {
            "--api-backend": self._backend(spec),
            "--api-base": url,
            # The real key is in the environment: every user can read a command line.
            "--api-key": _NO_KEY,
            "--api-model-name": spec.model_name,
            "--model-tokenizer": spec.model_tokenizer,
            "--task": spec.task,
            "--traffic-scenario": written_plainly(load.scenario),
            level: str(load.concurrency),
            "--max-time-per-run": str(minutes_of(load)),
            "--max-requests-per-run": str(load.most_requests),
            "--additional-request-params": json.dumps(dict(spec.additional_params)),
            "--experiment-base-dir": str(directory),
            "--experiment-folder-name": "run",
            "--log-dir": str(directory),
        }
        if spec.dataset_url:
            arguments["--dataset-path"] = spec.dataset_url
        if self._engine in _SERVER_ENGINES:
            arguments["--server-engine"] = _SERVER_ENGINES[self._engine]
        return ("benchmark", *(f"{name}={value}" for name, value in arguments.items()))

    def _backend(self, spec: BenchmarkSpec) -> str:
        """Return the API backend. With `openai` genai-bench leaves out `ignore_eos`, which strict OpenAI servers
        refuse.
        """
        if self._engine in _BACKENDS:
            return _BACKENDS[self._engine]
        return "vllm" if "ignore_eos" in spec.additional_params or spec.task == "text-to-rerank" else "openai"

    def _environment(self, url: str, spec: BenchmarkSpec) -> dict[str, str]:
        kept = {
            name: value
            for name, value in self._env.items()
            if name in _KEPT or name.startswith("HF_") or name.lower().endswith("_proxy")
        }
        without_proxy = [self._env.get("NO_PROXY") or self._env.get("no_proxy"), urlsplit(url).hostname]
        # A local directory needs no hub, which would otherwise be asked for updates of it.
        offline = {"HF_HUB_OFFLINE": "1"} if Path(spec.model_tokenizer).is_dir() and not spec.dataset_url else {}
        return {
            **kept,
            **offline,
            "NO_PROXY": ",".join(host for host in without_proxy if host),
            "MODEL_API_KEY": self._env.get("OPENAI_API_KEY") or _NO_KEY,
            "ENABLE_UI": "false",
            "GENAI_BENCH_LOGGING_LEVEL": "WARNING",
            "MPLBACKEND": "Agg",
        }

    def _last_lines(self, directory: Path) -> str:
        with (directory / "output").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_BYTES))
            text = file.read().decode(errors="replace")
        key = self._env.get("OPENAI_API_KEY")
        # The frames of a traceback say less than its last line.
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith(" ")][-_LAST_LINES:]
        return (" / ".join(lines).replace(key, "...") if key else " / ".join(lines)) or "(none)"


def minutes_of(load: AppliedLoad) -> int:
    """Return genai-bench's longest time for a level, in its whole minutes."""
    return max(1, math.ceil(load.most_s / _MINUTE_S))


def _has_ended(process: "subprocess.Popen[bytes]") -> bool:
    """Return whether the process has ended, without reaping it: until then its group's number cannot be reused."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End the process, which is not reaped yet, with all its children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
